// SPDX-License-Identifier: Apache-2.0
#include "store/redis/check.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>

#include "store/redis/ask_all.hpp"
#include "store/redis/names.hpp"

namespace dlock::store::redis {
namespace {

using Findings = std::vector<Finding>;

/// Asks for each line "COMMAND words..." whether the user may: y, n, or x for a command that is not there.
/// Nothing before Redis 7, which cannot tell without doing it.
constexpr const char* rights_script = R"lua(
if not redis.acl_check_cmd then return '' end
local out = {}
for i, line in ipairs(ARGV) do
  local words = {}
  for word in string.gmatch(line, '%S+') do words[#words + 1] = word end
  local known, may = pcall(redis.acl_check_cmd, unpack(words))
  out[i] = known and (may and 'y' or 'n') or 'x'
end
return table.concat(out)
)lua";

/// One command that is needed, and what does not work without it.
struct Need {
    const char* command;  ///< as acl_check_cmd takes it
    const char* right;    ///< as ACL SETUSER takes it
    Severity severity;
    const char* without;
};

#define RECORD "dlock:{dlock-doctor}"
constexpr const char* no_locks = "no lock can be taken";
constexpr const char* no_waiting = "nobody can wait in line";
constexpr const char* late = "waiters are woken up to 2 s late";
constexpr std::array dlock_needs = std::to_array<Need>({
    {"EVALSHA 0 4 " RECORD " dlock:floor " RECORD ":line " RECORD ":tickets", "+evalsha", Severity::problem,
     no_locks},
    {"TIME", "+time", Severity::problem, no_locks},
    {"HMGET " RECORD " v", "+hmget", Severity::problem, no_locks},
    {"EXISTS " RECORD, "+exists", Severity::problem, no_locks},
    {"ZRANGE " RECORD ":line 0 0", "+zrange", Severity::problem, no_locks},
    {"GETSET dlock:floor 1", "+getset", Severity::problem, no_locks},
    {"SET dlock:floor 1", "+set", Severity::problem, no_locks},
    {"HSET " RECORD " v 1", "+hset", Severity::problem, no_locks},
    {"PEXPIRE " RECORD " 1", "+pexpire", Severity::problem, no_locks},
    {"HDEL " RECORD " v", "+hdel", Severity::problem, "no lock can be released"},
    {"HGET " RECORD ":tickets t", "+hget", Severity::problem, no_waiting},
    {"ZADD " RECORD ":line 1 t", "+zadd", Severity::problem, no_waiting},
    {"ZREM " RECORD ":line t", "+zrem", Severity::problem, no_waiting},
    {"ZRANK " RECORD ":line t", "+zrank", Severity::problem, no_waiting},
    {"ZCARD " RECORD ":line", "+zcard", Severity::warning, "dlock list and show do not work"},
    {"SCAN 0", "+scan", Severity::warning, "dlock list and scan do not work"},
    {"PUBLISH dlock:wake:doctor t", "+publish &dlock:wake:*", Severity::warning, late},
    {"SUBSCRIBE dlock:wake:doctor", "+subscribe &dlock:wake:*", Severity::warning, late},
    {"CLIENT SETNAME dlock", "+client|setname", Severity::note, "CLIENT LIST does not name dlock"},
});
#undef RECORD
constexpr std::array plain_needs = std::to_array<Need>({
    {"EVALSHA 0 1 dlock:meta:dlock-doctor", "+evalsha", Severity::problem, no_locks},
    {"TIME", "+time", Severity::problem, no_locks},
    {"GET dlock:meta:dlock-doctor", "+get", Severity::problem, no_locks},
    {"SET dlock:meta:dlock-doctor 1", "+set", Severity::problem, no_locks},
    {"PTTL dlock:meta:dlock-doctor", "+pttl", Severity::problem, "nobody learns who holds a lock"},
    {"PEXPIRE dlock:meta:dlock-doctor 1", "+pexpire", Severity::problem, "no lock can be renewed"},
    {"DEL dlock:meta:dlock-doctor", "+del", Severity::problem, "no lock can be released"},
    {"SCAN 0", "+scan", Severity::warning, "dlock list and scan do not work"},
    {"CLIENT SETNAME dlock", "+client|setname", Severity::note, "CLIENT LIST does not name dlock"},
});
constexpr Need role_need = {"ROLE", "+role", Severity::warning,
                            "a replica among the candidates is only found out by its refusals"};

std::vector<Need> needs_of(const Server& server) {
    std::vector<Need> needs;
    if (server.layout == Layout::plain)
        needs.assign(plain_needs.begin(), plain_needs.end());
    else
        needs.assign(dlock_needs.begin(), dlock_needs.end());
    if (server.candidates.size() > 1) needs.push_back(role_need);
    return needs;
}

std::string user_of(const Server& server) { return server.user.empty() ? "default" : server.user; }

std::string addresses_of(const Server& server) {
    std::string list;
    for (const Candidate& each : server.candidates) list += (list.empty() ? "" : ", ") + each.text();
    return list;
}

/// A field of INFO; empty when there is none.
std::string field(std::string_view info, std::string_view name) {
    const std::string wanted = "\n" + std::string(name) + ":";
    const std::size_t at = info.find(wanted);
    if (at == std::string_view::npos) return {};
    const std::string_view rest = info.substr(at + wanted.size());
    return std::string(rest.substr(0, rest.find_first_of("\r\n")));
}

long long number(const std::string& digits) {
    long long value = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return value;
}

/// The value of CONFIG GET; nothing when it may not be asked.
std::optional<std::string> setting(const Result<ReplyPtr>& answer) {
    if (!answer || !is_array(**answer) || (*answer)->elements != 2) return std::nullopt;
    return std::string(text(at(**answer, 1)));
}

Finding tls_finding(const Server& server) {
    const auto local = [](const Candidate& each) {
        return each.host == "localhost" || each.host == "::1" || each.host.starts_with("127.");
    };
    if (server.tls != nullptr) return {Severity::ok, "TLS", "encrypted; certificate and name are checked"};
    if (std::all_of(server.candidates.begin(), server.candidates.end(), local))
        return {Severity::ok, "TLS", "plain text, but it does not leave this host"};
    return {Severity::warning, "TLS",
            std::string("plain text over the network: whoever listens reads ") +
                (server.password.empty() ? "" : "the password, ") + "keys and notes, and can alter answers",
            "let Redis serve TLS (tls-port) and write rediss:// in the store URL"};
}

Findings rights_findings(const Server& server, const Result<ReplyPtr>& answer) {
    const std::string user = user_of(server);
    if (!answer) {
        if (answer.error() == errc::unauthorized)
            return {{Severity::problem, "rights",
                     "the user " + user + " may not run scripts: " + answer.error().detail,
                     "ACL SETUSER " + user + " +eval +evalsha (docs/stores/redis.md, least rights)"}};
        return {{Severity::problem, "rights", "scripts do not run here: " + answer.error().detail,
                 "EVAL and EVALSHA must not be renamed or disabled"}};
    }
    const std::vector<Need> needs = needs_of(server);
    const std::string_view may = text_of(answer);
    if (may.size() != needs.size())
        return {{Severity::note, "rights",
                 "a server before Redis 7 does not tell rights; the trial shows what a lock needs"}};
    Findings found;
    const std::string keys = server.layout == Layout::plain ? " ~dlock:meta:*" : " ~dlock:*";
    for (std::size_t i = 0; i < needs.size(); ++i) {
        if (may[i] == 'y') continue;
        const std::string_view right = std::string_view(needs[i].right).substr(1);
        const std::string name(right.substr(0, right.find(' ')));
        std::string what =
            may[i] == 'n' ? "the user " + user + " may not use " : "the server has no command ";
        found.emplace_back(needs[i].severity, "rights", std::move(what) + name + ": " + needs[i].without,
                           may[i] == 'n' ? "ACL SETUSER " + user + " " + needs[i].right + keys
                                         : "undo its rename-command in redis.conf");
    }
    if (found.empty())
        found.emplace_back(
            Severity::ok, "rights",
            "the user " + user + " has all " + std::to_string(needs.size()) + " that layout " +
                (server.layout == Layout::plain ? "plain needs beside the locks' own keys" : "dlock needs"));
    return found;
}

Finding role_finding(std::string_view info) {
    const std::string replicas = field(info, "connected_slaves");
    if (field(info, "role") == "slave")
        return {Severity::problem, "replication",
                "this is a replica of " + field(info, "master_host") + ":" + field(info, "master_port") +
                    ": it refuses writes, so no lock can be taken",
                "name the primary in the store URL, or all of them: redis://h1,h2"};
    if (number(replicas) > 0)
        return {Severity::warning, "replication",
                replicas +
                    " replica(s): replication is asynchronous, so a fail-over may forget the last "
                    "grants, and two callers then hold one lock",
                "give the fence to the resource (docs/fencing.md); min-replicas-to-write 1 narrows the gap"};
    return {Severity::ok, "replication", "a primary without replicas: no fail-over can forget a grant"};
}

Finding eviction_finding(std::string_view info, const Server& server) {
    const std::string policy = field(info, "maxmemory_policy");
    const long long limit = number(field(info, "maxmemory"));
    const long long used = number(field(info, "used_memory"));
    if (policy.empty())
        return {Severity::warning, "eviction", "this server does not tell its maxmemory-policy",
                "make sure that it is noeviction"};
    if (policy != "noeviction") {
        const std::string evicted = field(info, "evicted_keys");
        std::string text = "maxmemory-policy " + policy;
        text += limit == 0 ? " (no maxmemory is set, so nothing is evicted yet)"
                           : ": a full server deletes locks that are held, and two callers then hold one";
        if (number(evicted) > 0) text += "; " + evicted + " keys were evicted since its start";
        return {limit == 0 ? Severity::warning : Severity::problem, "eviction", std::move(text),
                "CONFIG SET maxmemory-policy noeviction, and in redis.conf; or a Redis of its own for locks"};
    }
    if (limit > 0 && used > limit / 10 * 9)
        return {Severity::warning, "eviction",
                "noeviction, but " + std::to_string(used * 100 / limit) +
                    " % of maxmemory is in use: a full server grants and renews nothing",
                "raise maxmemory, or see what fills it: redis-cli --bigkeys"};
    return {Severity::ok, "eviction",
            std::string("noeviction: no held lock is deleted for want of memory") +
                (server.layout == Layout::plain ? "" : ", and the fences stay")};
}

/// What a restart does to held locks.
Finding restart_finding(std::string_view info, const std::optional<std::string>& save,
                        const std::optional<std::string>& fsync, const Server& server) {
    const std::string fences =
        server.layout == Layout::plain ? "" : "; fences still rise, from the server's time";
    if (field(info, "aof_enabled") == "1") {
        if (fsync == "always")
            return {Severity::ok, "persistence", "appendonly with fsync always: a restart keeps each grant"};
        return {Severity::note, "persistence",
                "appendonly with fsync " + fsync.value_or("everysec or so") +
                    ": a crash of the server may forget the last second of grants" + fences,
                "appendfsync always keeps them, at the price of a sync each"};
    }
    if (save && !save->empty())
        return {Severity::warning, "persistence",
                "snapshots only (save " + *save +
                    "): a crash goes back to the last one, and forgets locks that are held" + fences,
                "CONFIG SET appendonly yes, and in redis.conf"};
    if (!save)
        return {Severity::warning, "persistence",
                "no appendonly: a crash forgets locks that are held" + fences,
                "CONFIG SET appendonly yes, and in redis.conf"};
    return {Severity::warning, "persistence",
            "none (no save, no appendonly): a restart forgets all locks that are held" + fences,
            "CONFIG SET appendonly yes, and in redis.conf; or be sure that nobody needs its locks then"};
}

void add_broken_persistence(std::string_view info, Findings& found) {
    if (field(info, "aof_last_write_status") == "err" || field(info, "rdb_last_bgsave_status") == "err")
        found.emplace_back(Severity::problem, "persistence",
                           "the last write to disk failed: Redis refuses locks while that is so "
                           "(stop-writes-on-bgsave-error)",
                           "look into its log; mostly the disk is full or the folder cannot be written");
}

Finding version_finding(std::string_view info) {
    const std::string version = field(info, "redis_version");
    if (field(info, "cluster_enabled") == "1")
        return {Severity::problem, "server",
                "Redis " + version + " in cluster mode, which this version of dlock does not speak",
                "use a Redis that is no cluster"};
    if (number(version) < 5)
        return {Severity::problem, "server", "Redis " + version + " is too old", "use Redis 5 or newer"};
    const long long days = number(field(info, "uptime_in_seconds")) / 86400;
    return {Severity::ok, "server",
            "Redis " + version + ", up for " +
                (days > 0 ? std::to_string(days) + " days" : field(info, "uptime_in_seconds") + " s")};
}

void add_info(const Answers& answers, const Server& server, Findings& found) {
    const Result<ReplyPtr>& answer = answers[0];
    const std::string info = "\n" + std::string(text_of(answer));
    if (!answer || field(info, "redis_version").empty()) {
        const std::string user = user_of(server);
        found.emplace_back(Severity::warning, "server",
                           "the user " + user + " may not read INFO, so eviction, persistence and " +
                               "replication are not known",
                           "run dlock doctor as an administrator, or ACL SETUSER " + user + " +info");
        return;
    }
    found.push_back(version_finding(info));
    found.push_back(role_finding(info));
    found.push_back(eviction_finding(info, server));
    found.push_back(restart_finding(info, setting(answers[1]), setting(answers[2]), server));
    add_broken_persistence(info, found);
}

std::chrono::microseconds wall_now() {
    timespec time{};
    clock_gettime(CLOCK_REALTIME, &time);
    return std::chrono::seconds(time.tv_sec) +
           std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::nanoseconds(time.tv_nsec));
}

/// The server's clock against ours in the middle of the round trip.
Finding clock_finding(const Result<ReplyPtr>& answer, std::chrono::microseconds ours,
                      std::chrono::nanoseconds round_trip) {
    if (!answer || !is_array(**answer) || (*answer)->elements != 2)
        return {Severity::warning, "clock", "the server's clock could not be read", "grant +time"};
    const std::chrono::microseconds theirs =
        std::chrono::seconds(number(std::string(text(at(**answer, 0))))) +
        std::chrono::microseconds(number(std::string(text(at(**answer, 1)))));
    const auto middle = ours - std::chrono::duration_cast<std::chrono::microseconds>(round_trip / 2);
    const auto skew = std::chrono::duration_cast<milliseconds>(theirs - middle);
    const std::string text = "the server's clock is " + std::to_string(std::abs(skew.count())) + " ms " +
                             (skew.count() < 0 ? "behind" : "ahead of") +
                             " this host's; only the server's decides when a lease ends";
    if (std::abs(skew.count()) < 1000) return {Severity::ok, "clock", text};
    return {Severity::note, "clock", text, "no lock suffers from it; times in logs differ: see to NTP"};
}

Finding reach_finding(const Server& server, std::chrono::nanoseconds round_trip) {
    const auto us = std::chrono::duration_cast<std::chrono::microseconds>(round_trip).count();
    return {Severity::ok, "reach",
            addresses_of(server) + " answers in " + std::to_string(us / 1000) + "." +
                std::to_string(us % 1000 / 100) + " ms"};
}

std::vector<Words> questions(const Server& server) {
    Words rights{"EVAL", rights_script, "0"};
    for (const Need& need : needs_of(server)) rights.emplace_back(need.command);
    return {{"INFO"}, {"CONFIG", "GET", "save"}, {"CONFIG", "GET", "appendfsync"}, std::move(rights)};
}

/// The error when there is no way to the server: then nothing is answered, or all of it in the same words. A
/// missing right fails each command in its own.
const Error* unreachable(const Answers& answers) {
    bool same = true;
    for (const auto& answer : answers) {
        if (!answer && answer.error().fault != Fault::fatal) return &answer.error();
        same = same && !answer && answer.error().detail == answers[0].error().detail;
    }
    return same ? &answers[0].error() : nullptr;
}

}  // namespace

void check(const std::shared_ptr<Links>& links, Loop& loop, Call call,
           Completion<Result<std::vector<Finding>>> done) {
    const auto asked = [links, &loop, call, done = std::move(done)](const Answers& answers) {
        if (const Error* away = unreachable(answers)) return done(*away);
        const auto found = std::make_shared<Findings>();
        add_info(answers, links->server(), *found);
        for (Finding& each : rights_findings(links->server(), answers[3])) found->push_back(std::move(each));
        found->push_back(tls_finding(links->server()));
        // Alone, on a connection that stands: its time is that of a round trip.
        ask_all(*links, call, {{"TIME"}},
                [links, &loop, done, found, sent = loop.now()](const Answers& time) {
                    const auto round_trip = loop.now() - sent;
                    found->push_back(clock_finding(time[0], wall_now(), round_trip));
                    found->insert(found->begin(), reach_finding(links->server(), round_trip));
                    done(*found);
                });
    };
    ask_all(*links, call, questions(links->server()), asked);
}

}  // namespace dlock::store::redis
