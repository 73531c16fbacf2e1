// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <type_traits>

#include "dlock/inspect.hpp"
#include "dlock/lease.hpp"
#include "dlock/options.hpp"

namespace dlock {

class Client;

namespace engine {
struct Candidate;
}

/// One candidate.
struct ElectionOptions {
    /// Of the lock that makes the leader. `lease`: how long nobody leads after a crash of the leader.
    /// `max_hold`: the longest term. `wait` says nothing here: a candidate waits until it is elected.
    AcquireOptions lock{};

    /// How long it does not stand again after `resign()` or an exception of a callback, so that another one
    /// can be elected also where the store keeps no line. Alone it leads nobody for so long.
    /// 0 to 365 days.
    std::chrono::milliseconds stand_back = std::chrono::seconds(2);

    /// `invalid_argument` naming the field.
    [[nodiscard]] Result<void> validate() const;
};
static_assert(std::is_trivially_destructible_v<ElectionOptions>);

/// A candidate for the leadership of one key; made by `Client::campaign`. It stands until it is elected,
/// leads until that ends, and stands again, until `stop()`.
///
/// Callbacks run on a thread of the election's own, one at a time: each call of `on_elected` is followed by
/// exactly one of `on_lost`, before the next `on_elected`. The leadership ends when the lease is lost, when
/// its `max_hold` is over, by `resign()`, by `stop()`, when the client is closed, and when `on_elected`
/// throws. Then `ended` stops; once `on_elected` has returned, `on_lost` is called; once that has returned,
/// the lock is released. So with `resign()` and `stop()` nobody else leads before `on_lost` has returned.
/// With a loss somebody may: `ended` stops a margin before the lease ends in the store (Lease), so work that
/// cannot stop within that gives its fence to the resource.
///
/// An exception of a callback goes no further: the leadership ends as by `resign()`, `problem()` has its
/// text, and it stands again after `stand_back`. The store out of reach or a missing right: it tries again
/// each second, and `problem()` tells.
///
/// Movable; calls from any thread. Keeps its client open. In a forked child it is inert: it leads nobody
/// there, and its destructor does nothing.
class Election {
public:
    /// `lease` is there until `on_lost` has returned, to ask `held()` and `fence()`. `ended` stops when the
    /// leadership ends, on whatever thread ends it. May return at once, after starting the work, or do the
    /// work until `ended`: `on_lost` waits for it.
    using OnElected = std::function<void(const Lease& lease, const std::stop_token& ended)>;
    /// Stops what on_elected began, and returns when that has stopped. `lease.held()` is still true when
    /// the leadership was given up, false when it was lost.
    using OnLost = std::function<void(const Lease& lease)>;

    Election(Election&& other) noexcept;
    Election& operator=(Election&& other) noexcept;
    /// As `stop()`.
    ~Election();

    /// From before `on_elected` until `on_lost` is due, while the lease is held.
    [[nodiscard]] bool leading() const;

    /// Who leads now, by one look at the store; nobody: none. `unavailable` and others of `Client::show`.
    [[nodiscard]] Result<std::optional<HolderInfo>> leader() const;

    /// Gives the leadership up and stands again after `stand_back`. Does not wait; nothing when it does not
    /// lead.
    void resign();

    /// Ends it for good: returns when `on_lost` has returned, if it led, and the lock is released, or the
    /// call time-out is over. In a callback of the election it does not wait for itself: the thread ends
    /// after the pair. Not from a callback on `ended`, which it would wait for.
    void stop();

    /// What keeps it from standing, or what the last callback threw; empty when all is well.
    [[nodiscard]] std::string problem() const;

private:
    friend class Client;
    explicit Election(std::shared_ptr<engine::Candidate> state) noexcept;

    std::shared_ptr<engine::Candidate> state_;
};

}  // namespace dlock
