// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sim/store_check.hpp"

namespace dlock::sim {

/// The one store: core/record behind two clocks. Everything it does is judged by the StoreCheck.
class Server {
public:
    Server(World& world, StoreCheck& check) : world_(world), check_(check) {}
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;
    ~Server() = default;

    store::AcquireAnswer acquire(const store::AcquireRequest& request, Origin from);
    store::RenewAnswer renew(const store::RenewItem& item);
    store::Released release(const store::ReleaseRequest& request);

    [[nodiscard]] bool holds(const std::string& key, const GrantId& id);

    /// `push` is called whenever the ticket's turn may have come.
    void subscribe(int client, const std::string& key, const TicketId& ticket, Task push);
    void unsubscribe(int client, const TicketId& ticket);
    void unsubscribe_all(int client);

    [[nodiscard]] bool up() const noexcept { return up_; }
    void go_down() noexcept { up_ = false; }
    void come_up() noexcept { up_ = true; }
    void flush();
    /// Forgets what nobody uses any more; fences stay above it.
    void clean_up();
    void step_wall_clock(nanoseconds by);
    void force_release(const std::string& key);

    void each(const std::function<void(const std::string& key, core::Record& record)>& visit);

private:
    struct Subscription {
        int client;
        TicketId ticket;
        Task push;
    };
    [[nodiscard]] std::uint64_t wall_us() const;
    void wake(const std::vector<core::Ticket>& tickets);
    void wake(const TicketId& ticket);

    World& world_;
    StoreCheck& check_;
    std::map<std::string, core::Record> records_;
    std::vector<Subscription> subscriptions_;
    std::uint64_t floor_ = 0;
    nanoseconds wall_offset_{};
    bool up_ = true;
};

}  // namespace dlock::sim
