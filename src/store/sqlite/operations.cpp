// SPDX-License-Identifier: Apache-2.0
#include "store/sqlite/operations.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "store/sqlite/rows.hpp"

namespace dlock::store::sqlite {
namespace {

constexpr std::chrono::hours remembered{1};
constexpr std::size_t renewals_a_turn = 500;
constexpr std::size_t forgotten_a_turn = 100;
constexpr std::size_t forgotten_a_call = 2000;
constexpr std::int64_t scanned_a_call = 20000;

Error unreadable(const Stored& stored) {
    if (stored.newer) return {errc::foreign_record, "the record of this key was made by a newer dlock"};
    return {errc::store_error, "the record of this key is damaged: " + stored.problem};
}

/// core::acquire for a key that is free without a line, as one statement (two for a new key): the commit is
/// what an acquire costs. The fence is the time wherever that is above the last one, so that nothing need be
/// read back; the rest is left to the rules. `kind` 0 is core::Kind::mutex.
std::optional<Fence> acquire_free(db::Sqlite& db, const Shared& shared, const AcquireRequest& request,
                                  std::string_view owner) {
    const Moment moment = Moment::of(shared.loop);
    const auto granted = [&](const char* sql) {
        db::Query query(db, sql);
        query.bind(db::Blob{request.subject->key.bytes()}).bind(db::Blob{request.attempt.raw()}).bind(owner);
        query.bind(moment.now).bind(moment.wall).bind(moment.now + to_us(request.lease));
        query.bind(to_us(request.lease)).bind(db::Blob{shared.boot});
        return query.finish() && db.changes() == 1;
    };
    if (granted(
            "UPDATE dlock_locks SET version = version + 1, fence = ?5, held = 1, holder = ?2, owner = ?3, "
            "since = ?4, wall = ?5, expires = ?6, lease = ?7, boot = ?8, used = ?5 "
            "WHERE key = ?1 AND kind = 0 AND tickets = 0 AND fence < ?5 "
            "AND (held = 0 OR (boot = ?8 AND expires <= ?4))") ||
        granted("INSERT INTO dlock_locks(key, holder, owner, since, wall, expires, lease, boot, fence, used, "
                "held, "
                "version, kind, tickets) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?5, ?5, 1, 1, 0, 0 "
                "FROM dlock_meta WHERE floor < ?5 ON CONFLICT DO NOTHING"))
        return Fence{static_cast<std::uint64_t>(moment.wall)};
    return std::nullopt;
}

core::AcquireAsk to_ask(const AcquireRequest& request, std::string_view wake) {
    core::AcquireAsk ask{.attempt = request.attempt, .owner = request.subject->owner, .lease = request.lease};
    if (request.place.line == Place::Line::join)
        ask.standing = core::Standing{.ticket = request.place.ticket,
                                      .lease = request.place.ticket_lease,
                                      .after_grant = request.place.after_grant == Place::AfterGrant::rejoin
                                                         ? core::Standing::AfterGrant::rejoin
                                                         : core::Standing::AfterGrant::leave,
                                      .wake = wake};
    return ask;
}

AcquireAnswer to_answer(const core::AcquireOutcome& outcome, const Stored& stored, Moment moment) {
    switch (outcome.what) {
        case core::Acquiring::granted:
            return Granted{.fence = outcome.fence, .handle = {}, .counted_from = {}};
        case core::Acquiring::queued:
            return Queued{.holder = holder_info(stored, moment), .place = outcome.ahead};
        case core::Acquiring::contended: {
            Contended contended{.holder = holder_info(stored, moment), .retry_in = {}};
            if (contended.holder) contended.retry_in = contended.holder->expires_in;
            return contended;
        }
        case core::Acquiring::kind_differs:
            break;
    }
    return Error(
        errc::limit_differs,
        "the key is in use as " + std::string(core::to_string(stored.record.kind)) + ", not as mutex");
}

AcquireAnswer acquire_by_rules(db::Sqlite& db, const Shared& shared, const AcquireRequest& request,
                               Wakeups& wakeups) {
    const std::string wake = request.place.line == Place::Line::join ? wakeups.address() : std::string();
    db::Transaction transaction(db);
    const Moment moment = Moment::of(shared.loop);
    const std::string& key = request.subject->key.bytes();
    Stored stored = load(db, key, moment, shared.boot);
    if (!stored.problem.empty()) return unreadable(stored);
    const auto floor =
        stored.exists ? 0 : static_cast<std::uint64_t>(db.number("SELECT floor FROM dlock_meta"));
    const auto outcome = core::acquire(stored.record, to_ask(request, wake), moment.store_time(), floor);
    const bool written = outcome.what == core::Acquiring::granted || outcome.what == core::Acquiring::queued;
    if (written || stored.restamped) {
        save(db, key, stored, moment, shared.boot,
             {.mine = request.place.ticket, .lease = request.place.ticket_lease});
        transaction.commit();
    }
    return to_answer(outcome, stored, moment);
}

RenewAnswer renew_grant(db::Sqlite& db, const Shared& shared, const RenewItem& item, const GrantId& id) {
    const Moment moment = Moment::of(shared.loop);
    db::Query query(
        db,
        "UPDATE dlock_locks SET version = version + 1, expires = ?4, lease = ?5, boot = ?6, used = ?7 "
        "WHERE key = ?1 AND holder = ?2 AND held = 1 AND (boot <> ?6 OR expires > ?3)");
    query.bind(db::Blob{item.subject->key.bytes()}).bind(db::Blob{id.raw()}).bind(moment.now);
    query.bind(moment.now + to_us(item.lease)).bind(to_us(item.lease)).bind(db::Blob{shared.boot});
    query.bind(moment.wall).finish();
    RenewAnswer answer;
    answer.renewal = db.changes() == 1 ? Renewal::renewed : Renewal::lost;
    return answer;
}

RenewAnswer renew_place(db::Sqlite& db, const Shared& shared, const RenewItem& item, const TicketId& id) {
    const Moment moment = Moment::of(shared.loop);
    const std::string& key = item.subject->key.bytes();
    RenewAnswer answer;
    Stored stored = load(db, key, moment, shared.boot);
    if (!stored.problem.empty()) {
        answer.detail = unreadable(stored).detail;
        return answer;
    }
    const auto outcome = core::renew_ticket(stored.record, id, item.lease, from_us(moment.now));
    if (outcome.alive || stored.restamped)
        save(db, key, stored, moment, shared.boot, {.mine = id, .lease = item.lease});
    answer.renewal = outcome.alive ? Renewal::renewed : Renewal::lost;
    answer.turn = outcome.turn;
    answer.holder_left = outcome.holder_left;
    return answer;
}

std::vector<RenewAnswer> renew_some(Connection& connection, const Shared& shared,
                                    std::span<const RenewItem> items, TimePoint deadline) {
    auto answers = connection.write(deadline, [&](db::Sqlite& db) {
        std::vector<RenewAnswer> some;
        some.reserve(items.size());
        db::Transaction transaction(db);
        for (const RenewItem& item : items) {
            if (const auto* grant = std::get_if<GrantId>(&item.id))
                some.push_back(renew_grant(db, shared, item, *grant));
            else
                some.push_back(renew_place(db, shared, item, std::get<TicketId>(item.id)));
        }
        transaction.commit();
        return some;
    });
    if (answers) return *std::move(answers);
    RenewAnswer unknown;
    unknown.detail = answers.error().detail;
    return std::vector<RenewAnswer>(items.size(), unknown);
}

std::optional<Wake> to_wake(const std::optional<core::Ticket>& ticket) {
    if (!ticket) return std::nullopt;
    return Wake{.address = ticket->wake, .ticket = ticket->id};
}

struct Freed {
    Released released = Released::not_owner;
    std::optional<Wake> wake;
    std::optional<Error> error;
};

/// A live grant of a key without a line, as one statement; false: see what the rules say.
bool release_alone(db::Sqlite& db, const Shared& shared, const ReleaseRequest& request) {
    const Moment moment = Moment::of(shared.loop);
    db::Query query(db,
                    "UPDATE dlock_locks SET version = version + 1, held = 0, used = ?5 WHERE key = ?1 "
                    "AND holder = ?2 AND held = 1 AND tickets = 0 AND boot = ?3 AND expires > ?4");
    query.bind(db::Blob{request.subject->key.bytes()}).bind(db::Blob{request.attempt.raw()});
    query.bind(db::Blob{shared.boot}).bind(moment.now).bind(moment.wall);
    return query.finish() && db.changes() == 1;
}

Freed release_by_rules(db::Sqlite& db, const Shared& shared, const ReleaseRequest& request) {
    db::Transaction transaction(db);
    const Moment moment = Moment::of(shared.loop);
    const std::string& key = request.subject->key.bytes();
    Stored stored = load(db, key, moment, shared.boot);
    Freed freed;
    if (!stored.problem.empty()) {
        freed.error = unreadable(stored);
        return freed;
    }
    const auto outcome = core::release(stored.record, request.attempt, request.ticket, from_us(moment.now));
    freed.released = outcome.released ? Released::released : Released::not_owner;
    freed.wake = to_wake(outcome.wake);
    if (stored.exists) save(db, key, stored, moment, shared.boot);
    transaction.commit();
    return freed;
}

/// The keys from `cursor` on whose last use lies long back.
std::vector<std::string> unused_keys(db::Sqlite& db, const Shared& shared, std::string& cursor) {
    std::vector<std::string> keys;
    const std::int64_t before = Moment::of(shared.loop).wall - to_us(remembered);
    db::Query query(db, "SELECT key, used FROM dlock_locks WHERE key > ?1 ORDER BY key LIMIT ?2");
    const std::string from = std::exchange(cursor, {});
    query.bind(db::Blob{from}).bind(scanned_a_call);
    std::int64_t scanned = 0;
    while (query.row()) {
        if (query.integer(1) < before) keys.emplace_back(query.bytes(0));
        if (++scanned < scanned_a_call && keys.size() < forgotten_a_call) continue;
        cursor = query.bytes(0);
        break;
    }
    return keys;
}

void forget(db::Sqlite& db, const Shared& shared, const std::string& key) {
    const Moment moment = Moment::of(shared.loop);
    Stored stored = load(db, key, moment, shared.boot);
    if (!stored.exists || !stored.problem.empty()) return;
    if (core::idle_since(stored.record) + remembered > from_us(moment.now)) {
        if (stored.restamped) save(db, key, stored, moment, shared.boot);
        return;
    }
    db::Query(db, "UPDATE dlock_meta SET floor = max(floor, ?1)")
        .bind(static_cast<std::int64_t>(stored.record.last_fence))
        .finish();
    db::Query(db, "DELETE FROM dlock_tickets WHERE key = ?1").bind(db::Blob{key}).finish();
    db::Query(db, "DELETE FROM dlock_locks WHERE key = ?1").bind(db::Blob{key}).finish();
}

}  // namespace

AcquireAnswer acquire(Connection& connection, const Shared& shared, const AcquireRequest& request,
                      const Asker& asker, TimePoint deadline) {
    const bool keeps_place =
        request.place.line == Place::Line::join && request.place.after_grant == Place::AfterGrant::rejoin;
    auto answer = connection.write(deadline, [&](db::Sqlite& db) -> AcquireAnswer {
        if (!keeps_place)
            if (const auto fence = acquire_free(db, shared, request, asker.owner))
                return Granted{.fence = fence, .handle = {}, .counted_from = {}};
        return acquire_by_rules(db, shared, request, asker.wakeups);
    });
    if (!answer) return std::move(answer).error();
    return *std::move(answer);
}

std::vector<RenewAnswer> renew(Connection& connection, const Shared& shared,
                               const std::vector<RenewItem>& items, TimePoint deadline) {
    std::vector<RenewAnswer> answers;
    answers.reserve(items.size());
    for (std::span<const RenewItem> rest(items); !rest.empty();) {
        const auto turn = rest.first(std::min(rest.size(), renewals_a_turn));
        for (RenewAnswer& answer : renew_some(connection, shared, turn, deadline))
            answers.push_back(std::move(answer));
        rest = rest.subspan(turn.size());
    }
    return answers;
}

ReleaseOutcome release(Connection& connection, const Shared& shared, const ReleaseRequest& request,
                       TimePoint deadline) {
    auto freed = connection.write(deadline, [&](db::Sqlite& db) {
        if (!request.ticket && release_alone(db, shared, request)) {
            Freed alone;
            alone.released = Released::released;
            return alone;
        }
        return release_by_rules(db, shared, request);
    });
    if (!freed) return {.answer = std::move(freed).error(), .wake = {}};
    if (freed->error) return {.answer = *std::move(freed->error), .wake = {}};
    return {.answer = freed->released, .wake = std::move(freed->wake)};
}

ForceOutcome force_release(Connection& connection, const Shared& shared, const Key& key,
                           std::string_view seen, TimePoint deadline) {
    struct Ended {
        Result<Forced> answer;
        std::optional<Wake> wake;
    };
    auto ended = connection.write(deadline, [&](db::Sqlite& db) -> Ended {
        db::Transaction transaction(db);
        const Moment moment = Moment::of(shared.loop);
        Stored stored = load(db, key.bytes(), moment, shared.boot);
        if (!stored.problem.empty()) return {.answer = unreadable(stored), .wake = {}};
        const auto outcome = core::force_release(stored.record, seen, from_us(moment.now));
        if (outcome.forced == Forced::done || stored.restamped)
            save(db, key.bytes(), stored, moment, shared.boot);
        transaction.commit();
        return {.answer = outcome.forced, .wake = to_wake(outcome.wake)};
    });
    if (!ended) return {.answer = std::move(ended).error(), .wake = {}};
    return {.answer = std::move(ended->answer), .wake = std::move(ended->wake)};
}

void clean_up(Connection& connection, const Shared& shared, std::string& cursor, TimePoint deadline) {
    auto keys = connection.read(deadline, [&](db::Sqlite& db) { return unused_keys(db, shared, cursor); });
    if (!keys) return;
    for (std::span<const std::string> rest(*keys); !rest.empty();) {
        const auto turn = rest.first(std::min(rest.size(), forgotten_a_turn));
        const auto written = connection.write(deadline, [&](db::Sqlite& db) {
            db::Transaction transaction(db);
            for (const std::string& key : turn) forget(db, shared, key);
            transaction.commit();
            return true;
        });
        if (!written) return;
        rest = rest.subspan(turn.size());
    }
}

Result<void> forget_free(Connection& connection, const Key& key, TimePoint deadline) {
    const auto written = connection.write(deadline, [&](db::Sqlite& db) {
        db::Transaction transaction(db);
        db::Query floor(db,
                        "UPDATE dlock_meta SET floor = max(floor, coalesce((SELECT fence FROM dlock_locks "
                        "WHERE key = ?1 AND held = 0 AND tickets = 0), 0))");
        floor.bind(db::Blob{key.bytes()}).finish();
        db::Query gone(db, "DELETE FROM dlock_locks WHERE key = ?1 AND held = 0 AND tickets = 0");
        gone.bind(db::Blob{key.bytes()}).finish();
        transaction.commit();
        return true;
    });
    if (!written) return written.error();
    return {};
}

}  // namespace dlock::store::sqlite
