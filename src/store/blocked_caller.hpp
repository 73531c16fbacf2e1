// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <memory>
#include <utility>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dlock/time.hpp"

namespace dlock::store {

/// A thread that makes a call and then sleeps until its answer is there. A store may let it read the replies
/// itself meanwhile, its own and those of others, so that no second thread is woken for them: waking one
/// costs more than the rest of a round trip. Optional: a store that knows nothing of it answers as ever.
///
/// The blocking face makes one a call and names it with a Scope while the call is made. A store that finds
/// `current()` set may `attach()`, keep the caller beside its unanswered request, and `offer()` it the right
/// to read. Shared, since a request may outlive the wait for it.
class BlockedCaller {
public:
    /// What there is to read.
    class Source {
    public:
        /// On the thread of `caller`, which has been offered the right: reads until `caller` is over or has
        /// no unanswered request here, then gives the right on. Does nothing when the right has been taken
        /// back.
        virtual void read_for(const BlockedCaller& caller) = 0;

    protected:
        ~Source() = default;
    };

    /// Names the caller for the calls that this thread makes in its lifetime; null: nobody waits for them.
    class Scope {
    public:
        explicit Scope(const std::shared_ptr<BlockedCaller>* caller) noexcept
            : before_(std::exchange(current_caller, caller)) {}
        ~Scope() { current_caller = before_; }
        Scope(const Scope&) = delete;
        Scope& operator=(const Scope&) = delete;

    private:
        const std::shared_ptr<BlockedCaller>* before_;
    };
    [[nodiscard]] static std::shared_ptr<BlockedCaller> current() {
        return current_caller == nullptr ? nullptr : *current_caller;
    }

    /// Waits until `give_up` at most. A thread that reads just then notices up to 10 ms later.
    explicit BlockedCaller(TimePoint give_up = TimePoint::max()) noexcept : give_up_(give_up) {}

    // Any thread.

    /// The answer is there: the thread wakes. Touches nothing but the address of the word once that can be
    /// seen, so the thread may destroy everything at once.
    void answer() noexcept {
        if ((word_.fetch_or(answered) & sleeping) != 0) futex(FUTEX_WAKE_PRIVATE, 1, nullptr);
    }
    /// Gives it the right to read. False when it has its answer, or has given up, and will not read.
    [[nodiscard]] bool offer() noexcept {
        if (over()) return false;
        std::uint32_t word = word_.load();
        do {
            if ((word & answered) != 0) return false;
        } while (!word_.compare_exchange_weak(word, word | offered));
        if ((word & sleeping) != 0) futex(FUTEX_WAKE_PRIVATE, 1, nullptr);
        return true;
    }

    // The thread itself.

    /// True when it may be offered the right to read this source from now on; a caller has one at most.
    [[nodiscard]] bool attach(const std::shared_ptr<Source>& source) {
        if (source_ == nullptr) source_ = source;
        return source_ == source;
    }
    /// Whether to read on is of no use to it.
    [[nodiscard]] bool over() const noexcept { return (word_.load() & answered) != 0 || past(); }
    /// Sleeps, or reads where it is offered the right. False when it gave up.
    bool wait() {
        for (;;) {
            const std::uint32_t word = word_.load();
            if ((word & offered) != 0) {
                word_.fetch_and(~std::uint32_t{offered});
                reading_ = true;
                source_->read_for(*this);
                reading_ = false;
            } else if ((word & answered) != 0) {
                return true;
            } else if (past()) {
                return false;
            } else {
                sleep(word);
            }
        }
    }
    /// Waits no more, and takes no offer: one that came too late is given on, and so is the right of a reader
    /// whose reading ended in an exception.
    void leave() {
        if ((word_.fetch_or(answered) & offered) != 0 || reading_) source_->read_for(*this);
        source_.reset();
    }

private:
    enum Word : std::uint32_t { answered = 1, offered = 2, sleeping = 4 };

    [[nodiscard]] bool past() const noexcept {
        return give_up_ != TimePoint::max() && BootClock::now() >= give_up_;
    }

    void sleep(std::uint32_t word) noexcept {
        if (!word_.compare_exchange_strong(word, word | sleeping)) return;
        if (give_up_ == TimePoint::max()) {
            futex(FUTEX_WAIT_PRIVATE, word | sleeping, nullptr);
        } else if (const auto left = give_up_ - BootClock::now(); left > left.zero()) {
            const auto whole = std::chrono::floor<std::chrono::seconds>(left);
            const timespec time{whole.count(), (left - whole).count()};
            futex(FUTEX_WAIT_PRIVATE, word | sleeping, &time);
        }
        word_.fetch_and(~std::uint32_t{sleeping});
    }
    // A futex, not a condition variable: woken by one call, and only if it sleeps, the thread does not meet a
    // lock that the waker still has.
    void futex(int operation, std::uint32_t value, const timespec* time) noexcept {
        syscall(SYS_futex, &word_, operation, value, time, nullptr, 0);
    }

    inline static thread_local const std::shared_ptr<BlockedCaller>* current_caller = nullptr;

    std::atomic<std::uint32_t> word_{0};
    const TimePoint give_up_;
    std::shared_ptr<Source> source_;
    bool reading_ = false;
};

}  // namespace dlock::store
