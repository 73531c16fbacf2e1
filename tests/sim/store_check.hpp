// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "core/record.hpp"
#include "sim/world.hpp"
#include "store/store.hpp"

namespace dlock::sim {

using core::GrantId;
using core::TicketId;

/// Whose request it is that the store serves.
struct Origin {
    enum class Copy { first, repeated };  ///< repeated: by the network, unknown to the client
    int client = 0;
    Copy copy = Copy::first;
};

/// What is known of one grant id, by everything that was ever sent and done under it.
struct Grant {
    GrantId id{};
    int client = 0;
    int errand = 0;
    std::string key;
    std::optional<Fence> fence;  ///< set: the store has granted it
    int times = 0;               ///< how often it has: after a forced release a late call may get it again
    TimePoint expires{};
    bool live = false;      ///< neither released nor expired, by the simulation's own account
    bool excused = false;   ///< forced or flushed: its holder cannot know yet
    bool phantom = false;   ///< granted to a request repeated by the network
    bool given_up = false;  ///< its client has asked to release it
    bool released = false;  ///< the store has answered such a request with "released"
};

/// What is known of one place in line.
struct Place {
    int client = 0;
    std::string key;
    TimePoint kept{};  ///< when its client last sent something to keep it
    bool phantom = false;
    std::optional<TimePoint> given_up;
};

/// The simulation's own account of what the store may do: judges every step of the rules under test.
class StoreCheck {
public:
    explicit StoreCheck(World& world) : world_(world) {}

    // What clients send.
    void acquire_sent(int client, const store::AcquireRequest& request, int errand);
    void ticket_kept(int client, const std::string& key, const TicketId& ticket);
    void release_sent(const store::ReleaseRequest& request);

    // What the store did, from one record to the other.
    struct Step {
        const std::string& key;
        const core::Record& before;
        const core::Record& after;
    };
    void acquired(const Step& step, const core::AcquireAsk& ask, const core::AcquireOutcome& outcome,
                  Origin from);
    void renewed(const Step& step, const GrantId& id, milliseconds lease, bool yes);
    void released(const Step& step, const GrantId& id, bool yes);
    void forced(const Step& step, const GrantId& id);
    void flushed(std::uint64_t wall_us);
    void clock_stepped_back();

    /// Told of a grant or a place that ended by itself, once each.
    std::function<void(const Grant&)> ran_out;
    std::function<void(const Place&, const core::Ticket&)> place_ran_out;
    void look(const std::string& key, const core::Record& record);

    [[nodiscard]] const Grant* find(const GrantId& id) const;
    [[nodiscard]] const Place* find(const TicketId& id) const;
    /// Since when nobody holds the key; nothing while somebody does.
    [[nodiscard]] std::optional<TimePoint> free_since(const std::string& key) const;

private:
    struct OfKey {
        std::map<GrantId, core::Mode> holders;
        std::uint64_t last_fence = 0;
        bool by_clock_alone = false;  ///< flushed: fences rise only as long as the wall clock does
        TimePoint free_since{};
    };
    void granted(const Step& step, const core::AcquireAsk& ask, Fence fence, Origin from);
    void check_order(const Step& step, const core::AcquireAsk& ask);
    void check_after(const Step& step);
    void end(OfKey& of, const GrantId& id, TimePoint when);
    [[nodiscard]] std::set<GrantId> live(const core::Record& record) const;

    World& world_;
    std::map<std::string, OfKey> keys_;
    std::unordered_map<GrantId, Grant> grants_;
    std::unordered_map<TicketId, Place> places_;
};

std::string short_id(std::string_view raw);

}  // namespace dlock::sim
