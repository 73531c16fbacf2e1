// SPDX-License-Identifier: Apache-2.0
#include "store/redis/dlock_inspect.hpp"

#include <algorithm>

#include "core/text.hpp"
#include "store/owner_json.hpp"
#include "store/redis/dlock_answers.hpp"
#include "store/redis/dlock_scripts.hpp"
#include "store/redis/names.hpp"
#include "store/redis/scan.hpp"

namespace dlock::store::redis {
namespace {

constexpr std::int64_t shown_waiters = 100;

/// The elements of one record in the answer of the script.
enum Column : std::size_t {
    version,
    id,
    left,
    held,
    since,
    fence,
    owner,
    waiting,
    tickets,
    permits,
    holders,
    now,
    columns
};

bool is_look_answer(const redisReply& reply) {
    if (!is_array(reply)) return false;
    for (std::size_t i = 0; i < reply.elements; ++i)
        if (is_array(at(reply, i)) && at(reply, i).elements != columns) return false;
    return true;
}

std::vector<WaiterInfo> waiters_of(const redisReply& list, core::Kind kind) {
    std::vector<WaiterInfo> waiters;
    for (std::size_t i = 0; i + 3 < list.elements; i += 4) {
        WaiterInfo waiter;
        waiter.waited_for = to_ms(at(list, i).integer);
        waiter.expires_in = to_ms(at(list, i + 1).integer);
        waiter.owner = owner_from_json(text(at(list, i + 2)));
        waiter.mode = core::to_string(mode_of_letter(text(at(list, i + 3)), kind));
        waiters.push_back(std::move(waiter));
    }
    return waiters;
}

void add_holder(const redisReply& record, LockInfo& info) {
    const std::string_view stored = text(at(record, id));
    if (stored.empty() || at(record, left).integer <= 0) return;
    HolderInfo holder;
    holder.public_id = public_id_of_token(stored);
    holder.mode = core::to_string(core::Mode::exclusive);
    set_owner(holder, text(at(record, owner)));
    holder.fence = info.last_fence;
    holder.held_for = to_ms(at(record, held).integer);
    holder.expires_in = to_ms(at(record, left).integer);
    holder.since = to_wall(at(record, since).integer);
    info.holders.push_back(std::move(holder));
}

/// Takes the part up to the next `;` off the text.
std::string_view take_part(std::string_view& details) {
    const std::size_t end = details.find(';');
    const std::string_view part = details.substr(0, end);
    details.remove_prefix(end == std::string_view::npos ? details.size() : end + 1);
    return part;
}

/// In the order of their grants. Of one whose details were deleted only id and end are known.
void add_holders(const redisReply& record, core::Kind kind, LockInfo& info) {
    const redisReply& list = at(record, holders);
    for (std::size_t i = 0; i + 2 < list.elements; i += 3) {
        std::string_view details = text(at(list, i + 2));
        const auto began = fence_of(take_part(details));
        HolderInfo holder;
        holder.public_id = public_id_of_token(text(at(list, i)));
        holder.expires_in = to_ms(at(list, i + 1).integer);
        holder.fence = fence_of(take_part(details));
        holder.mode = core::to_string(mode_of_letter(take_part(details), kind));
        set_owner(holder, details);
        if (began) {
            const auto begin = static_cast<long long>(began->value);
            holder.held_for = to_ms(at(record, now).integer - begin);
            holder.since = to_wall(begin);
        }
        info.holders.push_back(std::move(holder));
    }
    std::sort(info.holders.begin(), info.holders.end(),
              [](const HolderInfo& one, const HolderInfo& other) { return one.since < other.since; });
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
    const core::Kind kind = kind_of(stored_version).value_or(core::Kind::mutex);
    info.last_fence = fence_of(text(at(record, fence)));
    if (info.last_fence == Fence{}) info.last_fence.reset();
    if (kind == core::Kind::permits) info.permits = static_cast<std::uint32_t>(at(record, permits).integer);
    if (kind == core::Kind::mutex)
        add_holder(record, info);
    else
        add_holders(record, kind, info);
    info.waiters = waiters_of(at(record, tickets), kind);
    return info;
}

void look(Links& links, const std::vector<Names>& names, std::int64_t show, Call call,
          std::function<void(Result<ReplyPtr>)> done) {
    const Script& script = DlockScripts::get().look;
    Command command(script, 4 * names.size(), 1);
    for (const Names& each : names)
        command.add(each.record).add(each.line).add(each.tickets).add(each.held());
    command.add(show);
    links.call(Lane::side, call.route,
               script_request(command, script, call, is_look_answer, std::move(done)));
}

FoundHolder found_in(const redisReply& record, const std::string& seen) {
    FoundHolder found;
    found.many = kind_of(text(at(record, version))) != core::Kind::mutex;
    const auto look_at_id = [&](const redisReply& stored) {
        found.held = true;
        if (public_id_of_token(text(stored)) == seen) found.id = text(stored);
    };
    const redisReply& list = at(record, holders);
    if (!found.many && at(record, left).integer > 0 && !text(at(record, id)).empty())
        look_at_id(at(record, id));
    for (std::size_t i = 0; i + 2 < list.elements; i += 3) look_at_id(at(list, i));
    return found;
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

void find_holder(const std::shared_ptr<Links>& links, const Key& key, const std::string& seen, Call call,
                 std::function<void(Result<FoundHolder>)> done) {
    look(*links, {Names(key.bytes())}, 0, call,
         [key, seen, done = std::move(done)](const Result<ReplyPtr>& reply) {
             if (!reply) return done(reply.error());
             const redisReply* record = (*reply)->elements == 1 ? &at(**reply, 0) : nullptr;
             if (record == nullptr || record->type == REDIS_REPLY_NIL) return done(FoundHolder{});
             if (!is_array(*record))
                 return done(in_record({errc::foreign_record, std::string(text(*record))}, key));
             const std::string_view stored_version = text(at(*record, version));
             if (!problem_of(stored_version).empty())
                 return done(refusal(key, stored_version, core::Mode::exclusive));
             done(found_in(*record, seen));
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
