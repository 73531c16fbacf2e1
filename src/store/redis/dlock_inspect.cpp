// SPDX-License-Identifier: Apache-2.0
#include "store/redis/dlock_inspect.hpp"

#include "core/text.hpp"
#include "store/owner_json.hpp"
#include "store/redis/answers.hpp"
#include "store/redis/dlock_scripts.hpp"
#include "store/redis/names.hpp"
#include "store/redis/scan.hpp"

namespace dlock::store::redis {
namespace {

constexpr std::int64_t shown_waiters = 100;

/// The elements of one record in the answer of the script.
enum Column : std::size_t { version, id, left, held, since, fence, owner, waiting, tickets, columns };

bool is_look_answer(const redisReply& reply) {
    if (!is_array(reply)) return false;
    for (std::size_t i = 0; i < reply.elements; ++i)
        if (is_array(at(reply, i)) && at(reply, i).elements != columns) return false;
    return true;
}

std::vector<WaiterInfo> waiters_of(const redisReply& list) {
    std::vector<WaiterInfo> waiters;
    for (std::size_t i = 0; i + 2 < list.elements; i += 3) {
        WaiterInfo waiter;
        waiter.waited_for = to_ms(at(list, i).integer);
        waiter.expires_in = to_ms(at(list, i + 1).integer);
        waiter.owner = owner_from_json(text(at(list, i + 2)));
        waiters.push_back(std::move(waiter));
    }
    return waiters;
}

void add_holder(const redisReply& record, LockInfo& info) {
    const std::string_view stored = text(at(record, id));
    if (stored.empty() || at(record, left).integer <= 0) return;
    HolderInfo holder;
    holder.public_id = public_id_of_token(stored);
    holder.owner = owner_from_json(text(at(record, owner)));
    holder.fence = info.last_fence;
    holder.held_for = to_ms(at(record, held).integer);
    holder.expires_in = to_ms(at(record, left).integer);
    holder.since = to_wall(at(record, since).integer);
    info.holders.push_back(std::move(holder));
}

/// A row without kind and problem: there is no record.
LockInfo row_of(Key key, const redisReply& record) {
    LockInfo info;
    info.key = std::move(key);
    if (is_string(record)) info.problem = "a value of another type, not written by dlock";
    if (!is_array(record)) return info;
    const std::string_view stored_version = text(at(record, version));
    info.problem = problem_of(stored_version);
    info.kind =
        stored_version.starts_with("1:") ? std::string(stored_version.substr(2)) : std::string("unknown");
    info.waiter_count = static_cast<std::size_t>(at(record, waiting).integer);
    if (!info.problem.empty()) return info;
    info.last_fence = fence_of(text(at(record, fence)));
    add_holder(record, info);
    info.waiters = waiters_of(at(record, tickets));
    return info;
}

void look(Links& links, const std::vector<Names>& names, std::int64_t show, Call call,
          std::function<void(Result<ReplyPtr>)> done) {
    const Script& script = DlockScripts::get().look;
    Command command(script, 3 * names.size(), 1);
    for (const Names& each : names) command.add(each.record).add(each.line).add(each.tickets);
    command.add(show);
    links.call(Lane::side, call.route,
               script_request(command, script, call, is_look_answer, std::move(done)));
}

/// What SCAN found may be named like a record and be none.
Key shown_key(const std::string& name) { return Key(key_of(name).value_or(name)); }

void look_at_names(Links& links, Call call, const std::vector<std::string>& found,
                   const Listing::Rows& done) {
    std::vector<Names> names;
    for (const std::string& name : found) names.push_back(Names::of_record(name));
    look(links, names, 0, call, [found, done](const Result<ReplyPtr>& reply) {
        if (!reply) return done(reply.error());
        std::vector<LockInfo> rows;
        for (std::size_t i = 0; i < found.size() && i < (*reply)->elements; ++i) {
            rows.push_back(row_of(shown_key(found[i]), at(**reply, i)));
            if (!key_of(found[i])) rows.back().problem = "its name belongs to no key";
        }
        done(std::move(rows));
    });
}

}  // namespace

void look_at(const std::shared_ptr<Links>& links, const Key& key, Call call, Completion<Result<Page>> done) {
    look(*links, {Names(key.bytes())}, shown_waiters, call,
         [key, done = std::move(done)](const Result<ReplyPtr>& reply) {
             if (!reply) return done(reply.error());
             Page page;
             if ((*reply)->elements == 1) page.locks.push_back(row_of(key, at(**reply, 0)));
             if (!page.locks.empty() && page.locks.front().kind.empty() && page.locks.front().problem.empty())
                 page.locks.clear();
             done(std::move(page));
         });
}

void find_holder(const std::shared_ptr<Links>& links, const Key& key, Call call,
                 std::function<void(Result<std::string>)> done) {
    look(*links, {Names(key.bytes())}, 0, call, [key, done = std::move(done)](const Result<ReplyPtr>& reply) {
        if (!reply) return done(reply.error());
        const redisReply* record = (*reply)->elements == 1 ? &at(**reply, 0) : nullptr;
        if (record == nullptr || record->type == REDIS_REPLY_NIL) return done(std::string());
        if (!is_array(*record))
            return done(in_record({errc::foreign_record, std::string(text(*record))}, key));
        const std::string_view stored_version = text(at(*record, version));
        if (!problem_of(stored_version).empty()) return done(refusal(key, stored_version));
        done(at(*record, left).integer > 0 ? std::string(text(at(*record, id))) : std::string());
    });
}

void list_records(const std::shared_ptr<Links>& links, Loop& loop, const Filter& filter, Call call,
                  Completion<Result<Page>> done) {
    Listing::run(
        links, loop, filter, record_pattern(filter.prefix), call,
        [links, call](const std::vector<std::string>& names, const Listing::Rows& rows) {
            look_at_names(*links, call, names, rows);
        },
        std::move(done));
}

}  // namespace dlock::store::redis
