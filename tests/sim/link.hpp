// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "sim/process.hpp"
#include "sim/server.hpp"
#include "store/store.hpp"

namespace dlock::sim {

/// How messages travel. All clients have the same weather.
struct Weather {
    nanoseconds fastest{};
    nanoseconds slowest{};
    double slow = 0;  ///< chance of a message that takes up to `very_slow`
    nanoseconds very_slow{};
    double lose_request = 0;
    double lose_reply = 0;
    double repeat = 0;  ///< a request that arrives twice
    double refuse = 0;  ///< "unavailable" without having asked
    double lose_push = 0;
    double only_held = 0;  ///< a renewal answered "held": not extended, still ours
};

/// No message arrives later than this after it was sent.
constexpr nanoseconds latest_arrival = std::chrono::seconds(3);

/// Told of every call that leaves a client, before it is sent.
class Witness {
public:
    virtual ~Witness() = default;
    virtual void sends(int client, const store::AcquireRequest& request) = 0;
    virtual void sends(int client, const store::RenewItem& item) = 0;
    virtual void sends(int client, const store::ReleaseRequest& request) = 0;
};

/// One client's way to the server: a usual connection, which keeps the order of what it carries, and a fresh
/// one for each call that wants it. Outlives the engine's Store.
class Link : public std::enable_shared_from_this<Link> {
public:
    Link(World& world, Server& server, Witness& witness, const Weather& weather,
         std::shared_ptr<Process> process, int client);

    /// The usual connection breaks: calls on it end without answer, watches fall silent until it is back.
    void cut(nanoseconds down_for);
    /// The usual connection carries nothing for that long, then everything.
    void stall(nanoseconds length);

    /// Every call finishes before it returns, as in the memory store.
    void make_immediate() noexcept { immediate_ = true; }

    void acquire(const store::AcquireRequest& request, store::Call call,
                 store::Completion<store::AcquireAnswer> done);
    void renew(std::vector<store::RenewItem> items, store::Call call,
               store::Completion<std::vector<store::RenewAnswer>> done);
    void release(const store::ReleaseRequest& request, store::Call call,
                 store::Completion<Result<store::Released>> done);

    using Changed = std::function<void(store::Change)>;
    void watch(const std::string& key, const TicketId& ticket, std::uint64_t number, Changed changed);
    void unwatch(std::uint64_t number);

private:
    /// A call that waits for its one answer.
    struct Waiting {
        bool answered = false;
        Task no_answer;
    };
    struct Watching {
        std::string key;
        TicketId ticket;
        Changed changed;
    };
    template <class Answer>
    struct Flight;
    template <class Answer>
    using FlightPtr = std::shared_ptr<Flight<Answer>>;

    template <class Answer>
    void send(store::Call call, FlightPtr<Answer> flight);
    template <class Answer>
    void arrive(const FlightPtr<Answer>& flight, Origin::Copy copy);
    template <class Answer>
    void answer(const FlightPtr<Answer>& flight, Answer with, nanoseconds after);
    [[nodiscard]] nanoseconds travel();
    [[nodiscard]] TimePoint arrival(store::Route route, TimePoint& last);
    [[nodiscard]] bool refuses(store::Route route);
    void subscribe(std::uint64_t number);
    void tell(std::uint64_t number);
    void tell_watches();
    std::vector<store::RenewAnswer> renew_all(const std::vector<store::RenewItem>& items);

    World& world_;
    Server& server_;
    Witness& witness_;
    const Weather& weather_;
    std::shared_ptr<Process> process_;
    const int client_;
    bool immediate_ = false;
    unsigned connection_ = 0;  ///< which usual one it is
    TimePoint down_until_{};
    TimePoint stalled_until_{};
    TimePoint last_request_{};
    TimePoint last_reply_{};
    std::vector<std::weak_ptr<Waiting>> on_usual_;
    std::map<std::uint64_t, Watching> watches_;
};

/// The Store that an engine gets.
std::unique_ptr<store::Store> make_store(std::shared_ptr<Link> link, const store::Capabilities& capabilities);

}  // namespace dlock::sim
