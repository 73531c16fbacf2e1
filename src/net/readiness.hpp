// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

namespace dlock::net {

/// A descriptor alone in an epoll of its own. Whoever watches that epoll in place of the descriptor wakes
/// only for what is armed just now, which any thread may change without waking it. One event disarms, so that
/// what nobody takes does not come again and again. Not thread-safe: under the lock of its owner.
class Readiness {
public:
    enum Event : std::uint32_t { none = 0, readable = 1, writable = 2, hang_up = 4 };

    /// Null where the system has no descriptor left. Destroy it before `fd` is closed.
    static std::unique_ptr<Readiness> make(int fd);
    Readiness(const Readiness&) = delete;
    Readiness& operator=(const Readiness&) = delete;
    ~Readiness();

    /// Readable while something that is armed has happened; to be watched for reading.
    [[nodiscard]] int fd() const noexcept { return epoll_; }
    /// What is armed. Errors come with whatever is.
    [[nodiscard]] std::uint32_t armed() const noexcept { return armed_; }
    /// No system call where nothing changes.
    void arm(std::uint32_t events) noexcept;
    /// Takes the event that made `fd()` readable, if it still counts.
    void take() noexcept;

private:
    Readiness(int epoll, int fd) noexcept : epoll_(epoll), fd_(fd) {}

    const int epoll_;
    const int fd_;
    std::uint32_t armed_ = none;
};

}  // namespace dlock::net
