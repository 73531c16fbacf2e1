// SPDX-License-Identifier: Apache-2.0
#include "net/readiness.hpp"

#include <sys/epoll.h>
#include <unistd.h>

namespace dlock::net {
namespace {

epoll_event event_of(std::uint32_t events) noexcept {
    epoll_event event{};
    event.events = EPOLLONESHOT;
    if ((events & Readiness::readable) != 0) event.events |= EPOLLIN;
    if ((events & Readiness::writable) != 0) event.events |= EPOLLOUT;
    if ((events & Readiness::hang_up) != 0) event.events |= EPOLLRDHUP;
    return event;
}

}  // namespace

std::unique_ptr<Readiness> Readiness::make(int fd) {
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0) return nullptr;
    std::unique_ptr<Readiness> made(new Readiness(epoll, fd));
    epoll_event event = event_of(hang_up);
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) return nullptr;
    made->armed_ = hang_up;
    return made;
}

Readiness::~Readiness() { close(epoll_); }

void Readiness::arm(std::uint32_t events) noexcept {
    if (events == armed_) return;
    armed_ = events;
    epoll_event event = event_of(events);
    epoll_ctl(epoll_, EPOLL_CTL_MOD, fd_, &event);
}

void Readiness::take() noexcept {
    epoll_event event{};
    if (epoll_wait(epoll_, &event, 1, 0) > 0) armed_ = none;
}

}  // namespace dlock::net
