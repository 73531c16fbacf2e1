// SPDX-License-Identifier: Apache-2.0
#include "cli/capture.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "cli/exit_code.hpp"
#include "cli/files.hpp"

namespace dlock::cli {

Capture::Capture(std::size_t most, Show show) : most_(most), show_(show) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
    read_end_ = ends[0];
    write_end_ = ends[1];
    // Only our end: the other one is the command's stdout, which must block as ever.
    ::fcntl(read_end_, F_SETFL, O_NONBLOCK);
    ended_ = ::eventfd(0, EFD_CLOEXEC);
    reader_ = std::thread([this] { read(); });
}

Capture::~Capture() {
    try {
        finish();
    } catch (const Failure&) {
        // Whoever wants to know has called it before.
    }
    ::close(read_end_);
    ::close(ended_);
}

void Capture::read() {
    std::array<pollfd, 2> all{{{read_end_, POLLIN, 0}, {ended_, POLLIN, 0}}};
    for (;;) {
        if (::poll(all.data(), all.size(), -1) < 0 && errno != EINTR) return;
        const bool ended = all[1].revents != 0;
        while (take()) {
        }
        if (ended) return;
        if ((all[0].revents & POLLIN) == 0 && (all[0].revents & POLLHUP) != 0)
            all[0].fd = -1;  // closed by all
    }
}

/// False when there is nothing more just now.
bool Capture::take() {
    std::array<char, 16384> part{};
    const ssize_t got = ::read(read_end_, part.data(), part.size());
    if (got <= 0) return got < 0 && errno == EINTR;
    const std::string_view text(part.data(), static_cast<std::size_t>(got));
    size_ += text.size();
    text_.append(text.substr(0, most_ - std::min(most_, text_.size())));
    if (show_ == Show::yes && problem_ == 0) problem_ = write_all(STDOUT_FILENO, text);
    return true;
}

void Capture::finish() {
    if (reader_.joinable()) {
        ::close(std::exchange(write_end_, -1));
        const std::uint64_t one = 1;
        [[maybe_unused]] const ssize_t written = ::write(ended_, &one, sizeof one);
        reader_.join();
    }
    if (problem_ != 0)
        throw Failure(exit_code::internal, "output",
                      std::string("cannot write to stdout: ") + std::strerror(problem_));
}

}  // namespace dlock::cli
