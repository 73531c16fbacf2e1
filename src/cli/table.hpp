// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dlock::cli {

using Row = std::vector<std::string>;

/// Lines with columns as wide as their widest text, counted in characters. All rows have as many cells.
std::string table(const std::vector<Row>& rows);

/// The text in lines of at most `width` columns, broken at blanks; a longer word stays whole. Lines behind
/// the first begin with `indent` blanks.
struct Wrap {
    std::size_t width;
    std::size_t indent;
};
std::string wrapped(std::string_view text, Wrap wrap);

/// Columns of the terminal behind a descriptor; 0 when there is none.
std::size_t terminal_columns(int fd) noexcept;

}  // namespace dlock::cli
