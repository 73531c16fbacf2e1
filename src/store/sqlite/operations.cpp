// SPDX-License-Identifier: Apache-2.0
#include "store/sqlite/operations.hpp"

#include <algorithm>
#include <span>
#include <unordered_map>
#include <utility>

#include "store/by_rules.hpp"
#include "store/sqlite/results.hpp"
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
/// read back; the rest is left to the rules. Nobody else may hold, whatever the mode.
std::optional<Fence> acquire_free(db::Sqlite& db, const Shared& shared, const AcquireRequest& request,
                                  std::string_view owner) {
    const Moment moment = Moment::of(shared.loop);
    const auto granted = [&](const char* sql) {
        db::Query query(db, sql);
        query.bind(db::Blob{request.subject->key.bytes()}).bind(db::Blob{request.attempt.raw()}).bind(owner);
        query.bind(moment.now).bind(moment.wall).bind(moment.now + to_us(request.lease));
        query.bind(to_us(request.lease)).bind(db::Blob{shared.boot});
        query.bind(static_cast<std::int64_t>(core::kind_of(request.mode)));
        query.bind(static_cast<std::int64_t>(request.mode)).bind(std::int64_t{request.permits});
        return query.finish() && db.changes() == 1;
    };
    const bool nameless = request.mode == core::Mode::permit && request.permits == 0;
    if (granted(
            "UPDATE dlock_locks SET version = version + 1, fence = ?5, held = 1, holder = ?2, owner = ?3, "
            "since = ?4, wall = ?5, expires = ?6, lease = ?7, boot = ?8, used = ?5, mode = ?10, "
            "holder_fence = ?5 WHERE key = ?1 AND kind = ?9 AND tickets = 0 AND fence < ?5 AND others = 0 "
            "AND (permits = ?11 OR ?11 = 0) AND (held = 0 OR (boot = ?8 AND expires <= ?4))") ||
        (!nameless &&
         granted("INSERT INTO dlock_locks(key, holder, owner, since, wall, expires, lease, boot, fence, "
                 "used, mode, holder_fence, held, version, kind, tickets, permits) SELECT ?1, ?2, ?3, ?4, "
                 "?5, ?6, ?7, ?8, ?5, ?5, ?10, ?5, 1, 1, ?9, 0, ?11 FROM dlock_meta WHERE floor < ?5 "
                 "ON CONFLICT DO NOTHING")))
        return Fence{static_cast<std::uint64_t>(moment.wall)};
    return std::nullopt;
}

AcquireAnswer to_answer(const core::AcquireOutcome& outcome, const Stored& stored,
                        const AcquireRequest& request, Moment moment) {
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
        case core::Acquiring::done:
            return done_of(*stored.record.done, from_us(moment.now));
        case core::Acquiring::lost:
            return grant_gone();
        case core::Acquiring::limit_differs:
            return limit_differs(stored.exists ? stored.record.permits : 0, request.permits);
        case core::Acquiring::kind_differs:
            break;
    }
    return kind_differs(stored.record.kind, request.mode);
}

AcquireAnswer acquire_by_rules(db::Sqlite& db, const Shared& shared, const AcquireRequest& request,
                               Wakeups& wakeups) {
    const std::string wake = request.place.line == Place::Line::join ? wakeups.address() : std::string();
    db::Transaction transaction(db);
    const Moment moment = Moment::of(shared.loop);
    const std::string& key = request.subject->key.bytes();
    Stored stored = load(db, key, moment, shared.boot);
    if (!stored.problem.empty()) return unreadable(stored);
    if (request.results == AcquireRequest::Results::want) stored.record.done = load_result(db, key, moment);
    const auto floor = stored.record.last_fence != 0
                           ? 0
                           : static_cast<std::uint64_t>(db.number("SELECT floor FROM dlock_meta"));
    const auto outcome = core::acquire(stored.record, ask_of(request, wake), moment.store_time(), floor);
    const bool written = outcome.what == core::Acquiring::granted || outcome.what == core::Acquiring::queued;
    if (written || stored.restamped) {
        save(db, key, stored, moment, shared.boot,
             {.mine = request.place.ticket, .lease = request.place.ticket_lease});
        transaction.commit();
    }
    return to_answer(outcome, stored, request, moment);
}

bool renew_among_several(db::Sqlite& db, const Shared& shared, const RenewItem& item, const GrantId& id,
                         Moment moment) {
    db::Query query(db,
                    "UPDATE dlock_holders SET expires = ?4, lease = ?5, boot = ?6 WHERE key = ?1 "
                    "AND holder = ?2 AND (boot <> ?6 OR expires > ?3) "
                    "AND EXISTS (SELECT 1 FROM dlock_locks WHERE key = ?1)");
    query.bind(db::Blob{item.subject->key.bytes()}).bind(db::Blob{id.raw()}).bind(moment.now);
    query.bind(moment.now + to_us(item.lease)).bind(to_us(item.lease)).bind(db::Blob{shared.boot}).finish();
    return db.changes() == 1;
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
    const bool renewed = db.changes() == 1 || renew_among_several(db, shared, item, id, moment);
    answer.renewal = renewed ? Renewal::renewed : Renewal::lost;
    return answer;
}

/// The tickets of one key together, so that its line is read and written once.
class Lines {
public:
    Lines(db::Sqlite& db, const Shared& shared)
        : db_(db), shared_(shared), moment_(Moment::of(shared.loop)) {}

    RenewAnswer renew(const RenewItem& item, const TicketId& id) {
        const std::string& key = item.subject->key.bytes();
        const auto [found, fresh] = lines_.try_emplace(key);
        Line& line = found->second;
        if (fresh) line.stored = load(db_, key, moment_, shared_.boot);
        RenewAnswer answer;
        if (!line.stored.problem.empty()) {
            answer.detail = unreadable(line.stored).detail;
            return answer;
        }
        const auto outcome = core::renew_ticket(line.stored.record, id, item.lease, from_us(moment_.now));
        if (outcome.alive) line.mine = {.mine = id, .lease = item.lease};
        line.changed = line.changed || outcome.alive || line.stored.restamped;
        answer.renewal = outcome.alive ? Renewal::renewed : Renewal::lost;
        answer.turn = outcome.turn;
        answer.holder_left = outcome.holder_left;
        return answer;
    }
    void save_all() {
        for (const auto& [key, line] : lines_)
            if (line.changed) save(db_, key, line.stored, moment_, shared_.boot, line.mine);
    }

private:
    struct Line {
        Stored stored;
        TicketLease mine;
        bool changed = false;
    };
    db::Sqlite& db_;
    const Shared& shared_;
    const Moment moment_;
    std::unordered_map<std::string_view, Line> lines_;
};

/// Grants before lines, since those are written back whole.
std::vector<RenewAnswer> renew_in(db::Sqlite& db, const Shared& shared, std::span<const RenewItem> items) {
    std::vector<RenewAnswer> answers(items.size());
    db::Transaction transaction(db);
    for (std::size_t i = 0; i < items.size(); ++i)
        if (const auto* grant = std::get_if<GrantId>(&items[i].id))
            answers[i] = renew_grant(db, shared, items[i], *grant);
    Lines lines(db, shared);
    for (std::size_t i = 0; i < items.size(); ++i)
        if (const auto* ticket = std::get_if<TicketId>(&items[i].id))
            answers[i] = lines.renew(items[i], *ticket);
    lines.save_all();
    transaction.commit();
    return answers;
}

std::vector<RenewAnswer> renew_some(Connection& connection, const Shared& shared,
                                    std::span<const RenewItem> items, TimePoint deadline) {
    auto answers = connection.write(deadline, [&](db::Sqlite& db) { return renew_in(db, shared, items); });
    if (answers) return *std::move(answers);
    RenewAnswer unknown;
    unknown.detail = answers.error().detail;
    return std::vector<RenewAnswer>(items.size(), unknown);
}

std::vector<Wake> to_wake(const std::vector<core::Ticket>& tickets) {
    std::vector<Wake> wakes;
    for (const core::Ticket& ticket : tickets) wakes.push_back({.address = ticket.wake, .ticket = ticket.id});
    return wakes;
}

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

ReleaseOutcome release_by_rules(db::Sqlite& db, const Shared& shared, const ReleaseRequest& request) {
    db::Transaction transaction(db);
    const Moment moment = Moment::of(shared.loop);
    const std::string& key = request.subject->key.bytes();
    Stored stored = load(db, key, moment, shared.boot);
    if (!stored.problem.empty()) return {.answer = unreadable(stored), .wake = {}};
    const auto outcome =
        core::release(stored.record, request.attempt, request.ticket, request.after, moment.store_time());
    if (stored.exists) save(db, key, stored, moment, shared.boot);
    if (stored.record.done)
        save_result(db, key, *stored.record.done, owner_of(stored, request.attempt), moment);
    transaction.commit();
    return {.answer = outcome.released ? Released::released : Released::not_owner,
            .wake = to_wake(outcome.wake)};
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
    stored.record.done = load_result(db, key, moment);
    if (core::idle_since(stored.record) > from_us(moment.now) - remembered) {
        if (stored.restamped) save(db, key, stored, moment, shared.boot);
        return;
    }
    db::Query(db, "UPDATE dlock_meta SET floor = max(floor, ?1)")
        .bind(static_cast<std::int64_t>(stored.record.last_fence))
        .finish();
    drop_result(db, key);
    drop_all(db, key);
}

}  // namespace

AcquireAnswer acquire(db::Sqlite& db, const Shared& shared, const AcquireRequest& request,
                      const Asker& asker) {
    const bool keeps_place =
        request.place.line == Place::Line::join && request.place.after_grant == Place::AfterGrant::rejoin;
    if (!keeps_place && !request.converts && request.results == AcquireRequest::Results::ignore)
        if (const auto fence = acquire_free(db, shared, request, asker.owner))
            return Granted{.fence = fence, .handle = {}, .counted_from = {}};
    return acquire_by_rules(db, shared, request, asker.wakeups);
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

ReleaseOutcome release(db::Sqlite& db, const Shared& shared, const ReleaseRequest& request) {
    const bool leaves = request.after.hold_off > milliseconds(0) || request.after.result;
    if (!request.ticket && !leaves && release_alone(db, shared, request))
        return {.answer = Released::released, .wake = {}};
    return release_by_rules(db, shared, request);
}

ForceOutcome force_release(db::Sqlite& db, const Shared& shared, const Key& key, std::string_view seen) {
    db::Transaction transaction(db);
    const Moment moment = Moment::of(shared.loop);
    Stored stored = load(db, key.bytes(), moment, shared.boot);
    if (!stored.problem.empty()) return {.answer = unreadable(stored), .wake = {}};
    const auto outcome = core::force_release(stored.record, seen, from_us(moment.now));
    if (outcome.forced == Forced::done || stored.restamped)
        save(db, key.bytes(), stored, moment, shared.boot);
    transaction.commit();
    return {.answer = outcome.forced, .wake = to_wake(outcome.wake)};
}

ConfigureOutcome configure(db::Sqlite& db, const Shared& shared, const ConfigureRequest& request) {
    db::Transaction transaction(db);
    const Moment moment = Moment::of(shared.loop);
    const std::string& key = request.key.bytes();
    Stored stored = load(db, key, moment, shared.boot);
    if (!stored.problem.empty()) return {.answer = unreadable(stored), .wake = {}};
    const auto outcome =
        core::configure(stored.record, request.permits, request.if_current, from_us(moment.now));
    if (outcome.what == core::ConfigureOutcome::What::changed) {
        save(db, key, stored, moment, shared.boot);
        transaction.commit();
    }
    return {.answer = configured(outcome), .wake = to_wake(outcome.wake)};
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
                        "WHERE key = ?1 AND held = 0 AND tickets = 0 AND others = 0 AND pinned = 0), 0))");
        floor.bind(db::Blob{key.bytes()}).finish();
        db::Query gone(db,
                       "DELETE FROM dlock_locks WHERE key = ?1 AND held = 0 AND tickets = 0 AND others = 0 "
                       "AND pinned = 0");
        gone.bind(db::Blob{key.bytes()}).finish();
        transaction.commit();
        return true;
    });
    if (!written) return written.error();
    return {};
}

}  // namespace dlock::store::sqlite
