// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "core/validity.hpp"
#include "dlock/error.hpp"

namespace dlock::core {

/// What bounds one acquisition.
struct AttemptRules {
    milliseconds lease;
    milliseconds skew;
    milliseconds call_timeout;
    milliseconds unavailable_after;
    TimePoint wait_until;  ///< TimePoint::max(): no limit; the start: do not wait
    bool waits;            ///< false: wait 0
};

/// One acquisition from its start until it holds or has failed, as rules without I/O. The engine feeds what
/// happened and performs the one action that comes back. An acquire without answer is never taken for either
/// outcome: it is repeated under the same id on a fresh connection until the store says which it was, or the
/// time to settle ends.
///
///   idle -> asking -> (waiting | pausing) -> asking ... -> holding | failed
///              '-> withdrawing -> failed
class AttemptMachine {
public:
    enum class Action {
        nothing,
        ask,        ///< send the acquire; its answers come with `call()` as it is now
        ask_fresh,  ///< the same on a fresh connection
        withdraw,   ///< take ticket and grant out of the store; then `withdrawn()`
        hold,       ///< granted: a lease begins, counted from `counted_from()`
        fail,       ///< over; `error()` says why; see `leftover()`
    };

    AttemptMachine(const AttemptRules& rules, TimePoint now) noexcept;

    /// Became the head of the local queue: ask.
    Action start(TimePoint now);
    /// Became the head, and the ticket already stands in line: wait.
    Action inherit(TimePoint now);

    // Answers to an ask. `call` tells which; each is fed at most once.
    Action granted(unsigned call, std::optional<TimePoint> counted_from, TimePoint now);
    Action queued(unsigned call, TimePoint now);
    Action contended(unsigned call, std::optional<milliseconds> retry_in, TimePoint now);
    /// There is a result, so the lock is not wanted any more.
    Action done(unsigned call, TimePoint now);
    Action failed(unsigned call, const Error& error, TimePoint now);

    /// The lock may be free now (pushed, seen by a look, or released in this process).
    Action changed(TimePoint now);
    Action timer(TimePoint now);
    /// The caller does not want it any more.
    Action stop(Error why, TimePoint now);
    /// Nobody will feed it any more: over at once, with this error.
    void abandon(Error why) { static_cast<void>(finish(std::move(why))); }
    /// The withdrawal is done, or could not be confirmed.
    enum class Withdrawn { confirmed, unconfirmed };
    Action withdrawn(Withdrawn how);

    [[nodiscard]] TimePoint due() const noexcept { return due_; }
    [[nodiscard]] unsigned call() const noexcept { return call_; }
    [[nodiscard]] bool over() const noexcept { return state_ == State::over; }
    [[nodiscard]] bool waits() const noexcept { return rules_.waits; }
    [[nodiscard]] bool waiting() const noexcept { return state_ == State::waiting; }
    [[nodiscard]] TimePoint counted_from() const noexcept { return counted_; }
    /// After `fail`: something may still be in the store under the attempt's id, up to one lease.
    [[nodiscard]] bool leftover() const noexcept {
        return leftover_ || unanswered_ || next_id_ == NextId::fresh_withdraw_old;
    }

    /// Under which id the next ask goes; told once. A fresh one after each answer: should the network repeat
    /// the answered call, its grant is not taken for that of a later call and counted from a wrong moment.
    enum class NextId {
        same,
        fresh,
        fresh_withdraw_old,  ///< calls under the old one have had no answer, or it has a grant
    };
    [[nodiscard]] NextId take_next_id() noexcept;
    /// True when an earlier ask under this id went unanswered, so that its place in line is not certain.
    [[nodiscard]] bool unsettled() const noexcept { return unanswered_; }
    [[nodiscard]] const Error& error() const noexcept { return *error_; }

private:
    enum class State { idle, asking, waiting, pausing, withdrawing, over };

    Action ask(TimePoint now);
    Action pause(nanoseconds delay, TimePoint now);
    Action end_wait(TimePoint now);
    Action finish(Error error);
    Action withdraw_then_fail(Error error, TimePoint now);
    Action no_answer(const Error& error, TimePoint now);
    Action store_away(const Error& error, TimePoint now);
    void definite() noexcept;
    [[nodiscard]] TimePoint ask_deadline(TimePoint now) const noexcept;
    [[nodiscard]] bool current(unsigned call) const noexcept {
        return state_ == State::asking && call == call_;
    }

    AttemptRules rules_;
    State state_ = State::idle;
    TimePoint due_;
    unsigned call_ = 0;
    TimePoint counted_{};      ///< first send under this id that may have set the expiry
    bool counting_ = false;    ///< `counted_` is set
    bool unanswered_ = false;  ///< an ask under this id has had no answer
    bool settling_ = false;
    TimePoint settle_until_{};
    std::optional<TimePoint> away_since_;  ///< first of the failures in a row
    unsigned failures_ = 0;
    bool placed_ = false;  ///< a ticket is, or may be, in line
    bool again_ = false;   ///< something changed while asking
    NextId next_id_ = NextId::same;
    bool leftover_ = false;
    std::optional<Error> stopping_;  ///< what to fail with when the present call is answered
    std::optional<Error> error_;
};

}  // namespace dlock::core
