// SPDX-License-Identifier: Apache-2.0
#include "engine/asio_loop.hpp"

#include <atomic>
#include <system_error>
#include <thread>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <sys/timerfd.h>
#include <unistd.h>

namespace dlock::engine {

namespace asio = boost::asio;
using Descriptor = asio::posix::basic_stream_descriptor<asio::io_context::executor_type>;

struct AsioLoop::Impl {
    asio::io_context io{1};
    asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
    std::thread thread;
};

namespace {

/// One timerfd. Set from any thread by the system call alone, so that nobody wakes the loop to move a
/// deadline.
class FdTimer : public store::Loop::Timer {
public:
    struct Impl : std::enable_shared_from_this<Impl> {
        Impl(asio::io_context& io, store::Loop::Task t) : fd(io.get_executor()), task(std::move(t)) {
            const int raw = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
            if (raw < 0) throw std::system_error(errno, std::generic_category(), "timerfd_create");
            fd.assign(raw);
        }
        void wait() {
            fd.async_wait(
                Descriptor::wait_read, [self = shared_from_this()](const boost::system::error_code& error) {
                    if (error || self->cancelled) return;
                    std::uint64_t count = 0;
                    // Moved away between the wake-up and here: nothing to read, nothing due.
                    const bool due = ::read(self->fd.native_handle(), &count, sizeof count) == sizeof count;
                    if (due) self->task();
                    if (!self->cancelled) self->wait();
                });
        }
        Descriptor fd;
        store::Loop::Task task;
        std::atomic<bool> cancelled{false};
    };

    FdTimer(asio::io_context& io, store::Loop::Task task)
        : io_(io), impl_(std::make_shared<Impl>(io, std::move(task))), fd_(impl_->fd.native_handle()) {
        asio::post(io_, [impl = impl_] { impl->wait(); });
    }
    ~FdTimer() override {
        impl_->cancelled = true;
        asio::post(io_, [impl = impl_] {
            boost::system::error_code ignored;
            impl->fd.close(ignored);
            impl->task = nullptr;
        });
    }
    FdTimer(const FdTimer&) = delete;
    FdTimer& operator=(const FdTimer&) = delete;

    void set(TimePoint when) override {
        // A zero time would disarm.
        const auto ns = std::max<std::int64_t>(when.time_since_epoch().count(), 1);
        itimerspec spec{};
        spec.it_value.tv_sec = ns / 1'000'000'000;
        spec.it_value.tv_nsec = ns % 1'000'000'000;
        timerfd_settime(fd_, TFD_TIMER_ABSTIME, &spec, nullptr);
    }
    void cancel() override {
        const itimerspec spec{};
        timerfd_settime(fd_, 0, &spec, nullptr);
    }

private:
    asio::io_context& io_;
    std::shared_ptr<Impl> impl_;
    int fd_;
};

class AsioWatch : public store::Loop::FdWatch {
public:
    using Interest = store::Loop::Interest;

    struct Impl : std::enable_shared_from_this<Impl> {
        Impl(asio::io_context& io, int raw, store::Loop::Task t)
            : fd(io.get_executor(), raw), ready(std::move(t)) {}

        void want(Interest i) {
            interest = i;
            if ((i == Interest::read || i == Interest::read_write) && !reading)
                wait(Descriptor::wait_read, reading);
            if ((i == Interest::write || i == Interest::read_write) && !writing)
                wait(Descriptor::wait_write, writing);
        }
        void wait(Descriptor::wait_type type, bool& pending) {
            pending = true;
            fd.async_wait(
                type, [self = shared_from_this(), type, &pending](const boost::system::error_code& error) {
                    pending = false;
                    if (error || self->interest == Interest::none) return;
                    const auto unwanted = type == Descriptor::wait_read ? Interest::write : Interest::read;
                    if (self->interest == unwanted) return;
                    self->ready();
                    if (self->fd.is_open()) self->want(self->interest);
                });
        }
        Descriptor fd;
        store::Loop::Task ready;
        Interest interest = Interest::none;
        bool reading = false;
        bool writing = false;
    };

    AsioWatch(asio::io_context& io, int fd, Interest interest, store::Loop::Task ready)
        : impl_(std::make_shared<Impl>(io, fd, std::move(ready))) {
        impl_->want(interest);
    }
    ~AsioWatch() override {
        impl_->interest = Interest::none;
        impl_->fd.release();  // the descriptor is not ours
    }
    AsioWatch(const AsioWatch&) = delete;
    AsioWatch& operator=(const AsioWatch&) = delete;

    void want(Interest interest) override { impl_->want(interest); }

private:
    std::shared_ptr<Impl> impl_;
};

}  // namespace

AsioLoop::AsioLoop() : impl_(std::make_shared<Impl>()) {
    impl_->thread = std::thread([impl = impl_] { impl->io.run(); });
}

AsioLoop::~AsioLoop() { stop(); }

void AsioLoop::stop() noexcept {
    impl_->io.stop();
    if (!impl_->thread.joinable()) return;
    if (here()) {
        impl_->thread.detach();
    } else {
        impl_->thread.join();
    }
}

void AsioLoop::post(Task task) { asio::post(impl_->io, std::move(task)); }

bool AsioLoop::here() const noexcept { return impl_->io.get_executor().running_in_this_thread(); }

std::unique_ptr<store::Loop::Timer> AsioLoop::timer(Task task) {
    return std::make_unique<FdTimer>(impl_->io, std::move(task));
}

std::unique_ptr<store::Loop::FdWatch> AsioLoop::watch(int fd, Interest interest, Task ready) {
    return std::make_unique<AsioWatch>(impl_->io, fd, interest, std::move(ready));
}

}  // namespace dlock::engine
