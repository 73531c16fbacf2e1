// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "dlock/lease.hpp"
#include "dlock/observer.hpp"
#include "dlock/options.hpp"
#include "sim/plan.hpp"
#include "sim/store_check.hpp"

namespace dlock::sim {

/// One acquisition by one simulated thread, from its start to the end of its lease.
struct Errand {
    int number = 0;
    int client = 0;
    std::string key;
    core::Mode mode = core::Mode::exclusive;
    AcquireOptions options;
    std::shared_ptr<Process> process;
    TimePoint started{};
    TimePoint started_own{};  ///< by the process's own clock
    std::stop_source stop;
    std::optional<TimePoint> cancelled;

    int completions = 0;
    std::optional<TimePoint> completed;
    std::optional<GrantId> grant;
    std::optional<Lease> lease;
    std::optional<std::stop_callback<Task>> on_lost;
    bool leaving = false;   ///< its thread has begun to give it back
    bool released = false;  ///< it was held then
    bool closed = false;    ///< its client has been closed
    bool due = false;       ///< an answer to a release is due

    // As observed from outside.
    TimePoint usable_until{};  ///< in the world's time
    std::optional<TimePoint> over_since;

    [[nodiscard]] bool pending() const noexcept { return !completed; }
};
using ErrandPtr = std::shared_ptr<Errand>;

/// Judges what clients believe, are told, and send.
class HolderCheck : public Witness {
public:
    HolderCheck(World& world, StoreCheck& store, const Plan& plan);

    ErrandPtr add(int client, std::shared_ptr<Process> process);
    void completed(const ErrandPtr& errand, const Result<Lease>& result);
    void release_answered(const ErrandPtr& errand, const Result<void>& result);
    /// Nobody cares for it any more.
    void forget(const ErrandPtr& errand);
    void detached(const Errand& errand) { detached_.insert(*errand.grant); }
    void client_gone(int client);
    [[nodiscard]] bool lives(int client) const { return process_of(client) != nullptr; }
    [[nodiscard]] bool was_detached(const GrantId& id) const { return detached_.contains(id); }
    /// From now on the weather is calm.
    void calm() { calm_since_ = world_.now(); }

    void sends(int client, const store::AcquireRequest& request) override;
    void sends(int client, const store::RenewItem& item) override;
    void sends(int client, const store::ReleaseRequest& request) override;

    /// After every event.
    void observe();
    /// From time to time: is anybody forgotten?
    void look_for_forgotten();

    /// For the engine of that client.
    [[nodiscard]] std::shared_ptr<Observer> observer(int client);

    [[nodiscard]] const std::vector<ErrandPtr>& errands() const noexcept { return errands_; }

private:
    void observe(Errand& errand);
    void check_told(const Errand& errand);
    void check_believed(const Errand& errand);
    void check_deadline(const ErrandPtr& errand);
    [[nodiscard]] TimePoint must_end_by(const Errand& errand) const;
    void check_local_order(const Errand& errand, Fence fence);
    void check_outcome(const Errand& errand, const Error& error);
    void grant_ran_out(const Grant& grant);
    void place_ran_out(const Place& place, const core::Ticket& ticket);
    [[nodiscard]] bool waits_since(int client, const std::string& key, TimePoint when) const;
    [[nodiscard]] const Process* process_of(int client) const;
    [[nodiscard]] static bool believes(const Errand& errand, TimePoint now);

    World& world_;
    StoreCheck& store_;
    const Plan& plan_;
    std::optional<TimePoint> calm_since_;
    int last_number_ = 0;
    std::vector<ErrandPtr> errands_;  ///< those under way
    struct Ended {
        TimePoint at{};
        std::optional<GrantId> grant;
    };
    std::map<int, Ended> ended_;  ///< by number of the errand
    std::map<int, std::shared_ptr<Process>> processes_;
    std::map<std::pair<int, std::string>, TimePoint> last_wait_;
    std::set<GrantId> detached_;
    struct Turn {
        int number;
        Fence fence;
    };
    std::map<std::pair<int, std::string>, std::vector<Turn>> turns_;  ///< grants by client and key
};

}  // namespace dlock::sim
