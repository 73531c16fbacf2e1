// SPDX-License-Identifier: Apache-2.0
/// The pieces of docs/guide.md, as a program.
#include <condition_variable>
#include <cstdio>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>

#include <dlock/dlock.hpp>

#include "support.hpp"

using namespace std::chrono_literals;

namespace {

class Log : public dlock::Observer {
public:
    void on_event(const dlock::Event& event) noexcept override {
        std::printf("%.*s %s %s\n", static_cast<int>(to_string(event.kind).size()),
                    to_string(event.kind).data(), event.key.text().c_str(), event.public_id.c_str());
    }
};

dlock::Client open_client(const std::string& url) {
    dlock::ClientOptions options;
    options.call_timeout = 500ms;
    options.unavailable_after = 10s;
    return dlock::Client::open(url, options, dlock::Identity{"billing"}, std::make_shared<Log>()).value();
}

/// The lock without a thread that waits for it.
bool asynchronous(const dlock::Client& client) {
    std::promise<bool> held;
    auto mutex = client.mutex(dlock::Key{"guide/asynchronous"});
    mutex.start_acquire({.wait = 5s}, {}, [&](dlock::Result<dlock::Lease> got) {
        held.set_value(got && got->held());  // on the delivery thread
    });
    return held.get_future().get();
}

/// A wait that another thread may end.
bool cancelled(const dlock::Client& client) {
    const dlock::Lease held = client.mutex(dlock::Key{"guide/cancelled"}).acquire();
    std::stop_source stop;
    auto waiting = std::async(std::launch::async, [&] {
        const dlock::Context context(stop.get_token());
        return client.mutex(dlock::Key{"guide/cancelled"}).try_acquire({.wait = dlock::forever}, context);
    });
    stop.request_stop();
    const auto got = waiting.get();
    return !got && got.error() == dlock::errc::cancelled;
}

/// Steps that each must fit into what is left of the lease.
int by_hand(const dlock::Client& client) {
    auto mutex = client.mutex(dlock::Key{"guide/manual"});
    auto lease = mutex.try_acquire({.lease = 2s, .renewing = dlock::Renewing::manual}).value();
    int steps = 0;
    while (steps < 3 && lease.valid_for(500ms)) {
        ++steps;
        lease.renew().value();
    }
    return steps;
}

/// A lock that outlives its process, by its id.
bool handed_over(const dlock::Client& client, const dlock::Client& other) {
    auto lease = client.mutex(dlock::Key{"guide/handed over"}).try_acquire({.lease = 1min}).value();
    const std::string id = lease.detach().text();  // a secret: whoever has it can release

    const auto parsed = dlock::LeaseId::parse(id).value();
    other.renew(parsed, 5min).value();
    other.release(parsed).value();
    return !other.release(parsed);
}

/// Work that may hang, and must not keep the lock for ever when it does.
bool limited(const dlock::Client& client) {
    auto mutex = client.mutex(dlock::Key{"guide/limited"});
    auto lease = mutex.try_acquire({.max_hold = 10min, .progress_within = 1min}).value();
    for (int step = 0; step < 3; ++step) {
        lease.progress();  // once in a minute at least, else the lock goes to the next one
    }
    return lease.held();
}

/// From one account to another, with both locked.
bool several(const dlock::Client& client) {
    const auto both =
        client.acquire_all({dlock::Key{"guide/account 7"}, dlock::Key{"guide/account 4"}}, {.wait = 5s});
    if (!both) return false;
    return both->front().held() && both->back().held();
}

/// A lock whose next holder goes on where the first one ended.
bool adopted(const dlock::Client& client, const dlock::Client& other) {
    const dlock::LeaseId id = client.mutex(dlock::Key{"guide/adopted"}).try_acquire().value().detach();
    auto lease = other.adopt(id).value();  // renewed from here on
    return lease.held() && lease.release();
}

/// Work that one of all processes does, and whose result all get.
bool once(const dlock::Client& client, const dlock::Client& other) {
    const auto fetch_token = [](dlock::Lease& lease) -> std::string {
        if (!lease.held()) throw std::runtime_error("lost, so do nothing");
        return "token";
    };
    const auto token = client.once(dlock::Key{"guide/token"}, fetch_token, {.keep = 50min});
    if (!token) return false;  // lost, unknown_outcome, unavailable, ...
    std::printf("%s, %s by pid %d\n", token->result.c_str(), token->ran ? "fetched" : "known",
                static_cast<int>(token->by.pid));
    return !other.once(dlock::Key{"guide/token"}, fetch_token)->ran;
}

/// One scheduler on all hosts together.
void schedule(const dlock::Lease& lease, const std::stop_token& ended) {
    std::printf("leading, fence %llu\n", static_cast<unsigned long long>(lease.fence()->value));
    std::mutex mutex;
    std::condition_variable_any next_job;
    std::unique_lock lock(mutex);
    while (!ended.stop_requested()) next_job.wait_for(lock, ended, 10ms, [] { return false; });
}

void clean_up(const dlock::Lease& lease) {
    std::puts(lease.held() ? "given up: others lead when this returns"
                           : "lost: another one may lead already");
}

bool leads(const dlock::Client& client) {
    auto election = client.campaign(dlock::Key{"guide/scheduler"}, schedule, clean_up).value();
    while (!election.leading()) std::this_thread::sleep_for(10ms);
    const auto who = election.leader().value();  // one look at the store; nobody: none
    election.resign();                           // clean_up, release, and stand again after 2 s
    election.stop();                             // for good, as its destructor does
    return who.has_value();
}

bool std_mutex(const dlock::Client& client) {
    dlock::StdMutex mutex(client.mutex(dlock::Key{"guide/std"}), {.lease = 10s});
    const std::scoped_lock lock(mutex);
    return mutex.held();
}

}  // namespace

int main() {
    const examples::TempFolder folder;
    auto client = open_client(folder.store());
    const auto other = dlock::Client::open(folder.store()).value();
    const bool right = asynchronous(client) && cancelled(client) && by_hand(client) == 3 &&
                       handed_over(client, other) && limited(client) && several(client) &&
                       adopted(client, other) && once(client, other) && leads(client) && std_mutex(client);
    if (auto closed = client.close(); !closed) std::printf("%s\n", closed.error().message().c_str());
    return right ? 0 : 1;
}
