// SPDX-License-Identifier: Apache-2.0
#include "store/redis/plain_layout.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "store/owner_json.hpp"
#include "store/redis/answers.hpp"
#include "store/redis/check.hpp"
#include "store/redis/names.hpp"
#include "store/redis/renewals.hpp"
#include "store/redis/scan.hpp"
#include "store/redis/scan_all.hpp"

namespace dlock::store::redis {
namespace {

using namespace std::chrono_literals;

/// Nobody tells us of a release by other programs.
constexpr milliseconds poll = 100ms;

struct PlainScripts {
    /// KEYS key, companion; ARGV token, lease ms, companion's head, owner. {} granted | {token, ms left,
    /// companion}.
    Script acquire{R"lua(
local v = redis.call('GET', KEYS[1])
if v == ARGV[1] then return {} end
if v then return {v, redis.call('PTTL', KEYS[1]), redis.call('GET', KEYS[2]) or ''} end
local t = redis.call('TIME')
local since = string.format('%.0f', t[1] * 1000000 + t[2])
redis.call('SET', KEYS[2], ARGV[3] .. ';' .. since .. ';' .. ARGV[4], 'PX', ARGV[2])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {}
)lua"};
    /// KEYS key, companion; ARGV token. 1 ended | 0 another one, or none.
    Script release{R"lua(
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1], KEYS[2])
return 1
)lua"};
    /// KEYS (key, companion) for each; ARGV (token, lease ms) for each. One letter for each: r renewed, l
    /// lost.
    Script renew{R"lua(
local out = {}
for i = 1, #KEYS / 2 do
  local v = redis.pcall('GET', KEYS[2 * i - 1])
  out[i] = 'l'
  if v == ARGV[2 * i - 1] then
    redis.call('PEXPIRE', KEYS[2 * i - 1], ARGV[2 * i])
    redis.call('PEXPIRE', KEYS[2 * i], ARGV[2 * i])
    out[i] = 'r'
  end
end
return table.concat(out)
)lua"};
    /// KEYS (key, companion) for each. For each nil, or an error text, or {token, ms left, companion, now
    /// us}.
    Script look{R"lua(
local t = redis.call('TIME')
local out = {}
for i = 1, #KEYS / 2 do
  local v = redis.pcall('GET', KEYS[2 * i - 1])
  if type(v) == 'table' then
    out[i] = v.err
  elseif not v then
    out[i] = false
  else
    local m = redis.pcall('GET', KEYS[2 * i])
    if type(m) ~= 'string' then m = '' end
    out[i] = {v, redis.call('PTTL', KEYS[2 * i - 1]), m, t[1] * 1000000 + t[2]}
  end
end
return out
)lua"};

    static const PlainScripts& get() {
        static const PlainScripts scripts;
        return scripts;
    }
};

std::string companion_of(const Key& key) { return std::string(meta_prefix) + key.bytes(); }

/// The names of the companions must not be anybody's lock.
Result<void> check_key(const Key& key) {
    if (!key.bytes().starts_with("dlock:")) return {};
    return Error(errc::invalid_argument,
                 "key: with layout=plain no key may begin with dlock: (" + key.text() + ")");
}

Error in_key(const Error& error, const Key& key) {
    if (error.code == make_error_code(errc::foreign_record))
        return {errc::foreign_record, "the value under " + key.text() +
                                          " is not a string, so it is no lock of layout=plain (" +
                                          error.detail + ")"};
    if (error.code == make_error_code(errc::unauthorized))
        return {errc::unauthorized, error.detail +
                                        "; layout=plain needs rights for the lock's own key and for " +
                                        std::string(meta_prefix) + "*"};
    return error;
}

bool is_acquire_answer(const redisReply& reply) {
    if (!is_array(reply)) return false;
    return reply.elements == 0 || (reply.elements == 3 && is_string(at(reply, 0)) &&
                                   is_integer(at(reply, 1)) && is_string(at(reply, 2)));
}

bool is_look_answer(const redisReply& reply) {
    if (!is_array(reply)) return false;
    for (std::size_t i = 0; i < reply.elements; ++i)
        if (is_array(at(reply, i)) && at(reply, i).elements != 4) return false;
    return true;
}

/// The holder as the first three elements say. The companion counts only when it is of this very token; where
/// it is not, somebody else's program holds the lock.
HolderInfo holder_of(const redisReply& reply, std::optional<long long> now_us) {
    HolderInfo holder;
    holder.public_id = public_id_of_token(text(at(reply, 0)));
    if (at(reply, 1).integer >= 0) holder.expires_in = milliseconds(at(reply, 1).integer);
    const std::string_view companion = text(at(reply, 2));
    const std::size_t since_at = companion.find(';');
    const std::size_t owner_at = companion.find(';', since_at + 1);
    if (companion.substr(0, since_at) != holder.public_id || owner_at == std::string_view::npos)
        return holder;
    long long since = 0;
    std::from_chars(companion.data() + since_at + 1, companion.data() + owner_at, since);
    holder.since = to_wall(since);
    if (now_us) holder.held_for = to_ms(*now_us - since);
    holder.owner = owner_from_json(companion.substr(owner_at + 1));
    return holder;
}

AcquireAnswer acquire_answer(const redisReply& reply) {
    if (reply.elements == 0) return Granted{};
    HolderInfo holder = holder_of(reply, std::nullopt);
    const milliseconds retry_in = holder.expires_in ? std::min(*holder.expires_in, poll) : poll;
    return Contended{.holder = std::move(holder), .retry_in = retry_in};
}

LockInfo row_of(Key key, const redisReply& record) {
    LockInfo info;
    info.key = std::move(key);
    if (is_string(record)) info.problem = "the value is not a string, so it is no lock of layout=plain";
    if (!is_array(record)) return info;
    info.kind = "mutex";
    info.holders.push_back(holder_of(record, at(record, 3).integer));
    return info;
}

void look(Links& links, const std::vector<Key>& keys, Call call, std::function<void(Result<ReplyPtr>)> done) {
    const Script& script = PlainScripts::get().look;
    Command command(script, 2 * keys.size(), 0);
    for (const Key& key : keys) command.add(key.bytes()).add(companion_of(key));
    links.call(Lane::side, call.route,
               script_request(command, script, call, is_look_answer, std::move(done)));
}

void end_token(Links& links, Lane lane, const Key& key, std::string_view token, Call call,
               std::function<void(Result<bool>)> done) {
    const Script& script = PlainScripts::get().release;
    Command command(script, 2, 1);
    command.add(key.bytes()).add(companion_of(key)).add(token);
    auto answer = [key, done = std::move(done)](const Result<ReplyPtr>& reply) {
        if (!reply) return done(in_key(reply.error(), key));
        done((*reply)->integer == 1);
    };
    links.call(lane, call.route, script_request(command, script, call, is_integer, std::move(answer)));
}

Capabilities plain_capabilities() {
    Capabilities made;
    made.lines = false;
    made.fence_scope = FenceScope::none;
    made.notify = false;
    made.modes = made.leaves = false;
    made.secret_at_rest = false;
    return made;
}

}  // namespace

PlainLayout::PlainLayout(Server server, const StoreEnv& env)
    : capabilities_(plain_capabilities()),
      loop_(env.loop),
      links_(std::make_shared<Links>(std::move(server), env)) {}

PlainLayout::~PlainLayout() { links_->close(); }

void PlainLayout::acquire(const AcquireRequest& request, Call call, Completion<AcquireAnswer> done) {
    const Key& key = request.subject->key;
    if (request.mode != core::Mode::exclusive)
        return done(Error(errc::unsupported, "layout=plain has exclusive locks only"));
    if (const Result<void> ok = check_key(key); !ok) return done(ok.error());
    const Script& script = PlainScripts::get().acquire;
    Command command(script, 2, 4);
    command.add(key.bytes()).add(companion_of(key));
    command.add(request.attempt).add(request.lease.count()).add(core::public_id(request.attempt));
    command.add(*owners_.of(request.subject->owner));
    auto answer = [subject = request.subject, done = std::move(done)](const Result<ReplyPtr>& reply) {
        if (!reply) return done(in_key(reply.error(), subject->key));
        done(acquire_answer(**reply));
    };
    links_->call(Lane::main, call.route,
                 script_request(command, script, call, is_acquire_answer, std::move(answer)));
}

void PlainLayout::renew(std::vector<RenewItem> items, Call call, Completion<std::vector<RenewAnswer>> done) {
    const auto gather = std::make_shared<Gather>(items.size(), std::move(done));
    std::vector<std::size_t> leases;
    for (std::size_t i = 0; i < items.size(); ++i) leases.push_back(i);
    for (auto& part : split(leases)) {
        Command command(PlainScripts::get().renew, 2 * part.size(), 2 * part.size());
        for (const std::size_t i : part)
            command.add(items[i].subject->key.bytes()).add(companion_of(items[i].subject->key));
        for (const std::size_t i : part)
            command.add(std::get<GrantId>(items[i].id)).add(items[i].lease.count());
        send_renewals(*links_, call, {std::move(command), PlainScripts::get().renew, letters},
                      std::move(part), gather);
    }
}

void PlainLayout::release(const ReleaseRequest& request, Call call, Completion<Result<Released>> done) {
    end_token(*links_, Lane::main, request.subject->key, request.attempt.hex(), call,
              [done = std::move(done)](Result<bool> ended) {
                  if (!ended) return done(ended.error());
                  done(*ended ? Released::released : Released::not_owner);
              });
}

void PlainLayout::inspect(const InspectRequest& request, Call call, Completion<Result<Page>> done) {
    if (request.only) {
        const Key key = *request.only;
        return look(*links_, {key}, call, [key, done = std::move(done)](const Result<ReplyPtr>& reply) {
            if (!reply) return done(in_key(reply.error(), key));
            Page page;
            if ((*reply)->elements == 1 && at(**reply, 0).type != REDIS_REPLY_NIL)
                page.locks.push_back(row_of(key, at(**reply, 0)));
            done(std::move(page));
        });
    }
    const std::string pattern = glob_escape(std::string(meta_prefix) + request.filter.prefix) + "*";
    const auto rows_of = [links = links_, call](const std::vector<std::string>& names,
                                                const Listing::Rows& rows_done) {
        std::vector<Key> keys;
        for (const std::string& name : names) keys.emplace_back(name.substr(meta_prefix.size()));
        look(*links, keys, call, [keys, rows_done](const Result<ReplyPtr>& reply) {
            if (!reply) return rows_done(reply.error());
            std::vector<LockInfo> rows;
            for (std::size_t i = 0; i < keys.size() && i < (*reply)->elements; ++i)
                rows.push_back(row_of(keys[i], at(**reply, i)));
            rows_done(std::move(rows));
        });
    };
    Listing::run(links_, loop_, request.filter, pattern, call, rows_of, std::move(done));
}

void PlainLayout::force_release(const Key& key, const std::string& seen, Call call,
                                Completion<Result<Forced>> done) {
    look(*links_, {key}, call,
         [links = links_, key, seen, call, done = std::move(done)](const Result<ReplyPtr>& reply) {
             if (!reply) return done(in_key(reply.error(), key));
             const redisReply* record = (*reply)->elements == 1 ? &at(**reply, 0) : nullptr;
             if (record == nullptr || record->type == REDIS_REPLY_NIL) return done(Forced::already_free);
             if (!is_array(*record))
                 return done(in_key({errc::foreign_record, std::string(text(*record))}, key));
             const std::string token(text(at(*record, 0)));
             if (public_id_of_token(token) != seen) return done(Forced::moved_on);
             // Only this very value is deleted: if it is gone by then, somebody else's grant is there or
             // none.
             end_token(*links, Lane::side, key, token, call, [done](Result<bool> ended) {
                 if (!ended) return done(ended.error());
                 done(*ended ? Forced::done : Forced::moved_on);
             });
         });
}

void PlainLayout::configure(const ConfigureRequest& /*request*/, Call /*call*/,
                            Completion<Result<Configured>> done) {
    done(Error(errc::unsupported, "layout=plain has exclusive locks only"));
}

void PlainLayout::check(Call call, Completion<Result<std::vector<Finding>>> done) {
    redis::check(links_, loop_, call, std::move(done));
}

void PlainLayout::scan(const ScanRequest& request, Call call, Completion<Result<ScanPage>> done) {
    scan_all(links_, request, call, std::move(done));
}

/// A free key has no record in this layout.
void PlainLayout::forget(const Key& /*key*/, Call /*call*/, Completion<Result<void>> done) { done({}); }

}  // namespace dlock::store::redis
