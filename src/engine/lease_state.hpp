// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "core/lease_machine.hpp"
#include "dlock/lease.hpp"
#include "engine/schedule.hpp"
#include "store/store.hpp"

namespace dlock::engine {

struct Withdrawal;

using ReleaseDone = std::function<void(Result<void>)>;

/// One grant of this client, shared by its Lease and the engine.
class LeaseState : public Timed {
public:
    enum class Phase { held, releasing, released, lost, detached };

    LeaseState(Engine& owner, const store::AcquireRequest& request, const LeaseId::Secret& lease_secret,
               store::Granted grant, const core::LeaseMachine& rules);

    [[nodiscard]] bool held() noexcept;
    [[nodiscard]] TimePoint usable_until() noexcept;
    [[nodiscard]] LeaseId id() const { return {subject->key, secret, handle}; }

    /// Moves the end of validity. False when somebody has already read the lease as over: then it is lost.
    [[nodiscard]] bool extend(TimePoint until) noexcept;
    /// From here on `held()` is false for ever.
    void kill() noexcept { usable_.store(dead, std::memory_order_release); }

    void on_time(Engine& engine, TimePoint now, Effects& effects) override;
    [[nodiscard]] bool may_come_early(TimePoint now) const override { return machine.may_renew(now); }

    /// Kept alive by the Lease, and by nothing inside the engine: its last reference must not be let go by a
    /// thread that it then waits for.
    Engine& engine;
    const store::SubjectPtr subject;
    const LeaseId::Secret secret;
    const store::GrantId grant;
    const std::string handle;
    std::stop_source lost_source;

    /// A reader that becomes the writer gets a higher one.
    [[nodiscard]] std::optional<Fence> fence() const noexcept;
    void set_fence(const std::optional<Fence>& fence) noexcept;

    // Under the engine's lock:
    core::LeaseMachine machine;
    core::Mode mode;
    std::chrono::milliseconds hold_off{0};  ///< after the release
    TimePoint at_least = TimePoint::min();  ///< until then others wait, even after the release
    std::optional<std::string> result;      ///< for the release to leave, for `keep`
    std::chrono::milliseconds keep{0};
    unsigned handles = 1;  ///< Leases of it
    Phase phase = Phase::held;
    const char* lost_reason = "";
    bool unsettled = false;  ///< an acquire without answer may take effect yet, and then once more
    std::optional<Result<void>> release_result;
    std::weak_ptr<Withdrawal> releasing;  ///< while the phase is `releasing`

private:
    static constexpr std::int64_t dead = TimePoint::min().time_since_epoch().count();
    std::atomic<std::int64_t> usable_;
    std::atomic<std::uint64_t> fence_{0};  ///< 0: none
};

}  // namespace dlock::engine
