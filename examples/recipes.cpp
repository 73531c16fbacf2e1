// SPDX-License-Identifier: Apache-2.0
/// The pieces of docs/recipes/, as a program. It ends with 0 when each does what its page says.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <dlock/dlock.hpp>

#include "support.hpp"

using namespace std::chrono_literals;

namespace {

/// Whether it cannot be had now.
bool busy(const dlock::Result<dlock::Lease>& got) { return !got && got.error() == dlock::errc::contended; }

/// Work that relies on a lock which its callers take.
void book(int& balance, int amount) {
    dlock::assert_held(dlock::Key{"account/7"});  // throws when nobody in this process holds it
    balance += amount;
}

bool mutual_exclusion(const dlock::Client& client, const dlock::Client& other) {
    int balance = 100;
    {
        dlock::Lease lease = client.mutex(dlock::Key{"account/7"}).acquire({.lease = 10s});
        book(balance, -30);
    }  // released
    auto got = other.mutex(dlock::Key{"account/7"}).try_acquire({.wait = 2s});
    if (!got) return false;
    return got->held() && balance == 70;
}

bool readers_and_writers(const dlock::Client& client, const dlock::Client& other) {
    auto catalogue = client.shared_mutex(dlock::Key{"catalogue"});
    auto elsewhere = other.shared_mutex(dlock::Key{"catalogue"});
    {
        const dlock::Lease reader = catalogue.acquire_shared();
        const dlock::Lease another = elsewhere.acquire_shared();  // at the same time
        if (!busy(elsewhere.try_acquire())) return false;         // a writer has to wait for both
    }
    dlock::Lease writer = catalogue.acquire({.wait = 5s});
    if (!busy(elsewhere.try_acquire_shared())) return false;
    catalogue.downgrade(writer).value();  // written; goes on as a reader, and lets readers in
    return elsewhere.try_acquire_shared({.wait = 5s}).has_value();
}

/// From reading to writing, without a gap for another writer.
bool upgrade(dlock::SharedMutex& catalogue, dlock::Lease& reader) {
    if (catalogue.try_upgrade(reader)) return true;
    if (!reader.release()) return false;  // others read: let go, stand in line as a writer, and read again
    auto writer = catalogue.try_acquire({.wait = 5s});
    if (!writer) return false;
    reader = std::move(*writer);
    return true;
}

bool upgrades(const dlock::Client& client) {
    auto catalogue = client.shared_mutex(dlock::Key{"catalogue 2"});
    dlock::Lease reader = catalogue.acquire_shared();
    const auto before = reader.fence();
    return upgrade(catalogue, reader) && reader.held() && before->value < reader.fence()->value;
}

/// Waits until all parts of a work have ended.
bool wait_for_parts(const dlock::Client& client, const dlock::Client& other) {
    auto work = client.shared_mutex(dlock::Key{"export"});
    std::vector<std::jthread> parts;
    std::atomic<int> written = 0;
    for (int part = 0; part < 3; ++part) {
        // Taken here, before the part begins: one that has not begun counts too.
        parts.emplace_back([&written, mine = work.acquire_shared()] { ++written; });  // ends: released
    }
    const auto all = other.shared_mutex(dlock::Key{"export"}).try_acquire({.wait = 10s});  // as the writer
    return all && written == 3;
}

/// Lets all begin at the same moment.
bool start_together(const dlock::Client& client, const dlock::Client& other) {
    auto gate = client.shared_mutex(dlock::Key{"gate"});
    dlock::Lease closed = gate.acquire();
    std::vector<std::future<bool>> runners;
    for (int runner = 0; runner < 3; ++runner) {
        runners.push_back(std::async(std::launch::async, [&other] {
            auto open = other.shared_mutex(dlock::Key{"gate"}).try_acquire_shared({.wait = 10s});
            return open.has_value();
        }));
    }
    closed.release().value();  // all that stand in line come in together
    return std::ranges::all_of(runners, [](std::future<bool>& runner) { return runner.get(); });
}

bool permits(const dlock::Client& client, const dlock::Client& other) {
    auto encoders = client.semaphore(dlock::Key{"encoders"}, 2);
    const dlock::Lease one = encoders.acquire();
    const dlock::Lease two = encoders.acquire();
    if (!busy(other.semaphore(dlock::Key{"encoders"}, 2).try_acquire())) return false;

    if (!other.configure(dlock::Key{"encoders"}, 3)) return false;  // while services run
    auto as_set = other.semaphore(dlock::Key{"encoders"}, dlock::Semaphore::as_configured);
    return as_set.try_acquire({.wait = 5s}).has_value();
}

constexpr auto interval = 400ms;

/// At most three calls of the payment service in each interval, from all hosts together.
bool may_call(const dlock::Client& client) {
    auto calls = client.semaphore(dlock::Key{"payment/calls"}, 3);
    // Kept for the interval even though it is released at once; the lease keeps it if we die before.
    auto permit = calls.try_acquire({.lease = interval + 1s, .at_least = interval});
    return permit.has_value();
}

bool rate(const dlock::Client& client) {
    std::vector<dlock::TimePoint> before, after;
    const auto end = dlock::BootClock::now() + 20s;
    while (after.size() < 9 && dlock::BootClock::now() < end) {
        const auto asked = dlock::BootClock::now();
        if (!may_call(client)) continue;
        before.push_back(asked);
        after.push_back(dlock::BootClock::now());
    }
    // The fourth call from each one on was let through in another interval.
    for (std::size_t i = 0; i + 3 < after.size(); ++i)
        if (after[i + 3] - before[i] < interval) return false;
    return after.size() == 9;
}

/// From one place to another, with both locked.
bool move_stock(const dlock::Client& client, const char* from, const char* to) {
    auto both = client.acquire_all({dlock::Key{from}, dlock::Key{to}}, {.wait = 10s});
    if (!both) return false;  // nothing is held
    return both->front().held() && both->back().held();
}

bool several_keys(const dlock::Client& client, const dlock::Client& other) {
    auto there = std::async(std::launch::async, [&] { return move_stock(client, "stock/a", "stock/b"); });
    const bool back = move_stock(other, "stock/b", "stock/a");  // the other way round, at the same time
    return there.get() && back;
}

/// Called with the lock or without it: `txid` says whether the caller is one's own transaction.
dlock::Result<dlock::Lease> lock_order(const dlock::Client& client, const std::string& txid) {
    dlock::Context context;
    context.txid = txid;
    return client.mutex(dlock::Key{"order/4711"})
        .try_acquire({.wait = 5s, .nested = dlock::Nested::join}, context);
}

bool re_entry(const dlock::Client& client, const dlock::Client& other) {
    auto outer = lock_order(client, "request 1");
    auto inner = lock_order(client, "request 1");  // the same grant
    if (!outer || !inner || outer->fence()->value != inner->fence()->value) return false;
    outer->release().value();
    return inner->held() && busy(other.mutex(dlock::Key{"order/4711"}).try_acquire());
}

bool joined(const dlock::Client& client, const dlock::Client& other) {
    std::optional<dlock::Lease> lease(client.mutex(dlock::Key{"upload"}).acquire());
    std::vector<std::jthread> parts;
    std::atomic<int> written = 0;
    for (int part = 0; part < 3; ++part) {
        parts.emplace_back([&written, mine = lease->join().value()] {  // each part keeps the lock
            if (mine.held()) ++written;
        });
    }
    lease.reset();  // does not free it while a part runs
    parts.clear();
    return written == 3 && other.mutex(dlock::Key{"upload"}).try_acquire({.wait = 5s}).has_value();
}

bool max_hold(const dlock::Client& client, const dlock::Client& other) {
    const auto lease =
        client.mutex(dlock::Key{"index"}).try_acquire({.lease = 1s, .max_hold = 500ms}).value();
    // Work that hangs. The next one gets the lock all the same, and the holder knows.
    const auto next = other.mutex(dlock::Key{"index"}).try_acquire({.wait = 10s});
    return next && !lease.held();
}

bool progress(const dlock::Client& client, const dlock::Client& other) {
    auto mutex = client.mutex(dlock::Key{"import"});
    auto lease = mutex.try_acquire({.lease = 1s, .progress_within = 500ms}).value();
    for (int row = 0; row < 1000; ++row) {
        lease.progress();  // after each piece of work; cheap
    }
    const bool held = lease.held();
    const auto next = other.mutex(dlock::Key{"import"}).try_acquire({.wait = 10s});  // no more progress
    return held && next && !lease.held();
}

bool hold_off(const dlock::Client& client, const dlock::Client& other) {
    auto reports = client.mutex(dlock::Key{"report"});
    const auto start = dlock::BootClock::now();
    reports.try_acquire({.at_least = 600ms}).value().release().value();  // counts from the grant
    if (!busy(other.mutex(dlock::Key{"report"}).try_acquire())) return false;
    auto next = other.mutex(dlock::Key{"report"}).try_acquire({.wait = 10s, .hold_off = 600ms});
    if (!next || dlock::BootClock::now() - start < 600ms) return false;
    next->release().value();  // hold_off counts from here
    return busy(reports.try_acquire());
}

/// Somebody who cannot wait for the end of it.
bool ended_by_force(const dlock::Client& client, const dlock::Client& other) {
    const dlock::Key key{"restart"};
    client.mutex(key).try_acquire({.hold_off = 1h}).value().release().value();
    const dlock::HolderInfo seen = other.show(key).value().holders.at(0);
    if (!seen.held_off || other.force_release(key, seen.public_id).value() != dlock::Forced::done)
        return false;
    return other.mutex(key).try_acquire().has_value();
}

/// In the process that takes the lock.
std::string hand_out(const dlock::Client& client) {
    dlock::Lease lease = client.mutex(dlock::Key{"upload/9"}).try_acquire({.lease = 1min}).value();
    return lease.detach().text();  // a secret; this process renews no more
}

/// In the process that goes on with the work.
bool go_on(const dlock::Client& other, const std::string& text) {
    const auto id = dlock::LeaseId::parse(text);
    if (!id) return false;
    auto lease = other.adopt(*id, {.lease = 10s});
    if (!lease) return false;  // `lost`: it ended on the way; take it anew, or give up
    return lease->held() && lease->fence() && lease->release();
}

int failures = 0;

void expect(bool right, const char* recipe) {
    std::printf("%-20s %s\n", recipe, right ? "ok" : "WRONG");
    if (!right) ++failures;
}

}  // namespace

int main() {
    const examples::TempFolder folder;
    const auto client = dlock::Client::open(folder.store()).value();
    const auto other = dlock::Client::open(folder.store()).value();
    expect(mutual_exclusion(client, other), "mutual exclusion");
    expect(readers_and_writers(client, other), "readers and writers");
    expect(upgrades(client), "upgrade");
    expect(wait_for_parts(client, other), "wait for parts");
    expect(start_together(client, other), "start together");
    expect(permits(client, other), "permits");
    expect(rate(client), "rate");
    expect(several_keys(client, other), "several keys");
    expect(re_entry(client, other), "re-entry");
    expect(joined(client, other), "joined leases");
    expect(max_hold(client, other), "max hold");
    expect(progress(client, other), "progress");
    expect(hold_off(client, other), "hold-off");
    expect(ended_by_force(client, other), "hold-off, forced");
    expect(go_on(other, hand_out(client)), "adopt");
    return failures == 0 ? 0 : 1;
}
