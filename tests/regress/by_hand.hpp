// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "sim/process.hpp"

namespace dlock::testing {

using std::chrono::milliseconds;

/// One engine on virtual time over a store whose every call the test answers itself.
class ByHand {
public:
    template <class Request, class Answer>
    struct Asked {
        Request request;
        store::Call call;
        store::Completion<Answer> answer;
    };
    using Acquire = Asked<store::AcquireRequest, store::AcquireAnswer>;
    using Renew = Asked<std::vector<store::RenewItem>, std::vector<store::RenewAnswer>>;
    using Release = Asked<store::ReleaseRequest, Result<store::Released>>;

    explicit ByHand(const store::Capabilities& capabilities = {});
    ByHand(const ByHand&) = delete;
    ByHand& operator=(const ByHand&) = delete;
    ~ByHand();

    /// The result is empty until the acquisition is over.
    using Outcome = std::shared_ptr<std::optional<Result<Lease>>>;
    Outcome acquire(milliseconds wait, milliseconds lease = std::chrono::seconds(10));
    void run(sim::nanoseconds time) { world_.run_until(world_.now() + time); }

    // The oldest call that is not answered yet, out of the queue; the test fails when there is none.
    Acquire next_acquire() { return next(acquires); }
    Renew next_renew() { return next(renews); }
    Release next_release() { return next(releases); }

    std::deque<Acquire> acquires;
    std::deque<Renew> renews;
    std::deque<Release> releases;

private:
    class HandStore;
    template <class Call>
    static Call next(std::deque<Call>& calls) {
        Call call = std::move(calls.at(0));
        calls.pop_front();
        return call;
    }

    sim::World world_{1, sim::World::Trace::off};
    std::shared_ptr<sim::Process> process_;
    std::shared_ptr<engine::Engine> engine_;
};

}  // namespace dlock::testing
