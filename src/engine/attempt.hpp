// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "core/attempt_machine.hpp"
#include "engine/engine.hpp"

namespace dlock::engine {

/// One acquisition on its way.
struct Attempt : Timed {
    Attempt(const core::AttemptRules& rules, TimePoint now) : machine(rules, now) {}
    void on_time(Engine& engine, TimePoint now, Effects& effects) override;

    core::AttemptMachine machine;
    store::AcquireRequest request;
    LeaseId::Secret secret{};
    AcquireOptions options{};  ///< the request's lease is shorter where a limit is nearer
    std::shared_ptr<std::optional<store::Done>> result;  ///< where to put one, if it is wanted
    std::optional<store::Granted> grant;
    std::optional<HolderInfo> holder;  ///< whom it was last told to wait for
    bool rejoins = false;              ///< the last ask said so: the ticket stays in line after the grant
    bool taken_out = false;            ///< a withdrawal for it is on its way
    Engine::AcquireDone done;
    Lease::Deliver deliver = Lease::Deliver::delivery_thread;
    std::shared_ptr<KeyLine> line;
    std::optional<std::stop_callback<std::function<void()>>> on_stop;
};

/// The local queue of one key: all in this client who want it alone, behind one ticket in the store. Only the
/// head talks to the store. Exists while somebody waits or a release is on its way. Readers and permits come
/// in side by side, so each of those is a queue of its own.
struct KeyLine : Timed {
    enum class Of { key, one };
    KeyLine(Key k, Of whom) : key(std::move(k)), of(whom) {}
    void on_time(Engine& engine, TimePoint now, Effects& effects) override;
    [[nodiscard]] bool may_come_early(TimePoint now) const override;

    const Key key;
    const Of of;
    std::vector<std::shared_ptr<Attempt>> queue;  ///< the head first
    store::TicketId ticket{};                     ///< all zero: none yet
    bool placed = false;                          ///< the ticket stands in line
    bool unsettled = false;                       ///< a call without answer may put the ticket in line yet
    std::unique_ptr<store::Watch> watch;
    bool watching = false;
    TimePoint next_look = TimePoint::max();
    unsigned releasing = 0;  ///< releases without answer: the next head waits for them
    bool inherits = false;   ///< the ticket stands in line for the next head
};

}  // namespace dlock::engine
