// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.hpp"

namespace dlock::engine {

/// `insist`: a call without answer may still take effect, so one "nothing there" proves nothing.
enum class WithdrawalUntil { confirmed, insist };

/// Something to be taken out of the store: a released grant, a ticket, what a call without answer may have
/// left. Repeated until the store confirms it, or until it has run out by itself.
struct Withdrawal : Timed {
    using Until = WithdrawalUntil;
    static constexpr std::size_t nowhere = static_cast<std::size_t>(-1);

    void on_time(Engine& engine, TimePoint now, Effects& effects) override;
    void confirmed(Engine& engine, store::Released answer, TimePoint now, Effects& effects);
    void failed(Engine& engine, const Error& error, TimePoint now, Effects& effects);
    void retry_later(Engine& engine, TimePoint now);

    store::ReleaseRequest request;
    Until until = Until::confirmed;
    TimePoint give_up;            ///< when it has run out in the store
    TimePoint answer_by;          ///< when whoever waits is told "unknown"
    std::size_t place = nowhere;  ///< among the engine's withdrawals
    bool asking = false;
    bool once_confirmed = false;
    bool may_be_done = false;  ///< a call of it has had no answer
    unsigned call = 0;
    unsigned failures = 0;
    std::string last_problem = "no answer yet";  // fits without memory of its own
    /// Called once under the engine's lock: the answer, or why it could not be confirmed in time.
    using Settled = std::function<void(const Result<store::Released>&, TimePoint, Effects&)>;
    Settled settled;
    std::vector<ReleaseDone> waiters;  ///< callers of release(), told by `settled`
};

}  // namespace dlock::engine
