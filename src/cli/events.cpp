// SPDX-License-Identifier: Apache-2.0
#include "cli/events.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <system_error>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

namespace dlock::cli {
namespace {

bool ignored(int signal) noexcept {
    struct sigaction action {};
    return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

int checked(int fd, const char* what) {
    if (fd < 0) throw std::system_error(errno, std::generic_category(), what);
    return fd;
}

timespec to_timespec(TimePoint when) noexcept {
    // 0 would switch the timer off; a moment before the boot is over anyway.
    const auto ns = std::max<std::int64_t>(when.time_since_epoch().count(), 1);
    return {static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
}

}  // namespace

Events::Events() {
    // Inherited from a parent that ignores it, SIGCHLD would take the command's status away.
    std::signal(SIGCHLD, SIG_DFL);
    sigset_t seen;
    sigemptyset(&seen);
    for (const int signal : {SIGCHLD, SIGTSTP, SIGCONT}) sigaddset(&seen, signal);
    // What nohup or `&` of a shell ignores stays ignored.
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2})
        if (!ignored(signal)) sigaddset(&seen, signal);
    sigset_t blocked = seen;
    sigaddset(&blocked, SIGTTOU);  // so that tcsetpgrp and messages work from the background
    sigaddset(&blocked, SIGTTIN);
    pthread_sigmask(SIG_BLOCK, &blocked, &original_);
    sigdelset(&original_, SIGPIPE);  // main() blocked that one already
    signals_ = checked(::signalfd(-1, &seen, SFD_CLOEXEC | SFD_NONBLOCK), "signalfd");
    timer_ = checked(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK), "timerfd");
    notice_ = checked(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd");
}

Events::~Events() {
    for (const int fd : {signals_, timer_, notice_}) ::close(fd);
}

void Events::alarm_at(TimePoint when) noexcept {
    itimerspec spec{};
    spec.it_value = to_timespec(when);
    ::timerfd_settime(timer_, TFD_TIMER_ABSTIME, &spec, nullptr);
}

void Events::notify() const noexcept {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(notice_, &one, sizeof one);  // full means: told already
}

Events::Event Events::next() {
    std::uint64_t count = 0;
    for (;;) {
        if (::read(notice_, &count, sizeof count) == sizeof count) return {Kind::notified};
        if (::read(timer_, &count, sizeof count) == sizeof count) return {Kind::alarm};
        signalfd_siginfo info{};
        if (::read(signals_, &info, sizeof info) == sizeof info)
            return {Kind::signal, static_cast<int>(info.ssi_signo)};
        std::array<pollfd, 3> all{{{notice_, POLLIN, 0}, {timer_, POLLIN, 0}, {signals_, POLLIN, 0}}};
        if (::poll(all.data(), all.size(), -1) < 0 && errno != EINTR)
            throw std::system_error(errno, std::generic_category(), "poll");
    }
}

Stopped stop_own_group(int signal) noexcept {
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, signal);
    sigset_t resumed;
    sigemptyset(&resumed);
    sigaddset(&resumed, SIGCONT);
    const timespec at_once{};
    ::sigtimedwait(&resumed, nullptr, &at_once);  // an old one must not look like the answer
    ::kill(0, signal);
    pthread_sigmask(SIG_UNBLOCK, &one, nullptr);  // here it stops
    pthread_sigmask(SIG_BLOCK, &one, nullptr);
    // The kernel drops the signal for a group that nobody could continue; only a real stop leaves a SIGCONT.
    return ::sigtimedwait(&resumed, nullptr, &at_once) == SIGCONT ? Stopped::yes : Stopped::no;
}

}  // namespace dlock::cli
