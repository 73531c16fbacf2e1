// SPDX-License-Identifier: Apache-2.0
#include "cli/table.hpp"

#include <algorithm>

#include <sys/ioctl.h>
#include <unistd.h>

namespace dlock::cli {
namespace {

std::size_t width_of(std::string_view text) {
    return static_cast<std::size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

std::string table(const std::vector<Row>& rows) {
    std::vector<std::size_t> widths;
    for (const Row& row : rows) {
        widths.resize(std::max(widths.size(), row.size()));
        for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
    }
    std::string text;
    for (const Row& row : rows) {
        for (std::size_t i = 0; i < row.size(); ++i) {
            text += row[i];
            if (i + 1 < row.size()) text.append(widths[i] - width_of(row[i]) + 2, ' ');
        }
        text.erase(text.find_last_not_of(' ') + 1);
        text += '\n';
    }
    return text;
}

std::string wrapped(std::string_view text, Wrap wrap) {
    std::string lines;
    std::size_t column = wrap.indent;
    while (!text.empty()) {
        const std::string_view word = text.substr(0, text.find(' '));
        text.remove_prefix(std::min(text.size(), word.size() + 1));
        const std::size_t width = width_of(word);
        if (column > wrap.indent && column + 1 + width > wrap.width) {
            lines += "\n" + std::string(wrap.indent, ' ');
            column = wrap.indent;
        } else if (column > wrap.indent) {
            lines += ' ';
            ++column;
        }
        lines += word;
        column += width;
    }
    return lines;
}

std::size_t terminal_columns(int fd) noexcept {
    winsize size{};
    if (::isatty(fd) != 1) return 0;
    return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace dlock::cli
