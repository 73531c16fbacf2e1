// SPDX-License-Identifier: Apache-2.0
#include "store/redis/dlock_layout.hpp"

#include <array>

#include "store/owner_json.hpp"
#include "store/redis/check.hpp"
#include "store/redis/dlock_inspect.hpp"
#include "store/redis/dlock_scripts.hpp"
#include "store/redis/names.hpp"
#include "store/redis/renewals.hpp"
#include "store/redis/scan_all.hpp"

namespace dlock::store::redis {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t holder_size = 6;

bool is_refusal(const redisReply& reply) {
    return reply.elements == 2 && is_integer(at(reply, 0)) && at(reply, 0).integer == refused_code &&
           is_string(at(reply, 1));
}

bool is_holder(const redisReply& reply) {
    constexpr std::array types{REDIS_REPLY_STRING,  REDIS_REPLY_INTEGER, REDIS_REPLY_INTEGER,
                               REDIS_REPLY_INTEGER, REDIS_REPLY_INTEGER, REDIS_REPLY_STRING};
    for (std::size_t i = 0; i < holder_size; ++i)
        if (at(reply, 2 + i).type != types[i]) return false;
    return true;
}

bool is_acquire_answer(const redisReply& reply) {
    if (is_string(reply)) return fence_of(text(reply)).has_value();
    if (!is_array(reply) || reply.elements < 2 || !is_integer(at(reply, 0))) return false;
    if (is_refusal(reply)) return true;
    if (!is_integer(at(reply, 1))) return false;
    const long long code = at(reply, 0).integer;
    if (code != queued_code && code != contended_code) return false;
    return reply.elements == 2 || (reply.elements == 2 + holder_size && is_holder(reply));
}

bool is_status_answer(const redisReply& reply) {
    return is_integer(reply) || (is_array(reply) && is_refusal(reply));
}

Result<long long> status_of(const Result<ReplyPtr>& reply, const Key& key) {
    if (!reply) return in_record(reply.error(), key);
    if (is_array(**reply)) return refusal(key, text(at(**reply, 1)));
    return (*reply)->integer;
}

void add_names(Command& command, const Key& key) {
    const Names names(key.bytes());
    command.add(names.record).add(names.line).add(names.tickets);
}

/// Two numbers for each ticket of a command.
bool turns(const redisReply& reply, const std::vector<std::size_t>& positions,
           std::vector<RenewAnswer>& answers) {
    if (!is_array(reply) || reply.elements != 2 * positions.size()) return false;
    for (std::size_t i = 0; i < positions.size(); ++i) {
        const long long code = at(reply, 2 * i).integer;
        const long long left = at(reply, 2 * i + 1).integer;
        RenewAnswer& answer = answers[positions[i]];
        answer.renewal = code == 0 ? Renewal::lost : Renewal::renewed;
        answer.turn = code == 2;
        if (left >= 0) answer.holder_left = to_ms(left);
    }
    return true;
}

std::optional<HolderInfo> holder_of(const redisReply& reply) {
    if (reply.elements != 2 + holder_size) return std::nullopt;
    HolderInfo info;
    info.public_id = public_id_of_token(text(at(reply, 2)));
    info.fence = Fence{static_cast<std::uint64_t>(at(reply, 3).integer)};
    info.held_for = to_ms(at(reply, 4).integer);
    info.expires_in = to_ms(at(reply, 5).integer);
    info.since = to_wall(at(reply, 6).integer);
    info.owner = owner_from_json(text(at(reply, 7)));
    return info;
}

AcquireAnswer acquire_answer(const redisReply& reply, const Key& key) {
    if (is_string(reply)) return Granted{.fence = fence_of(text(reply)), .handle = {}, .counted_from = {}};
    const long long code = at(reply, 0).integer;
    if (code == refused_code) return refusal(key, text(at(reply, 1)));
    std::optional<HolderInfo> holder = holder_of(reply);
    if (code == queued_code)
        return Queued{.holder = std::move(holder), .place = static_cast<std::size_t>(at(reply, 1).integer)};
    const auto retry_in = holder ? holder->expires_in : std::nullopt;
    return Contended{.holder = std::move(holder), .retry_in = retry_in};
}

}  // namespace

DlockLayout::DlockLayout(Server server, const StoreEnv& env)
    : instance_(env.instance),
      loop_(env.loop),
      links_(std::make_shared<Links>(std::move(server), env)),
      subscriber_(Subscriber::make(env.loop, *links_, env.instance, env.call_timeout)) {}

DlockLayout::~DlockLayout() {
    subscriber_->close();
    links_->close();
}

void DlockLayout::acquire(const AcquireRequest& request, Call call, Completion<AcquireAnswer> done) {
    if (request.mode != core::Mode::exclusive)
        return done(Error(errc::unsupported, "this version locks in exclusive mode only"));
    const Script& script = DlockScripts::get().acquire;
    const Names names(request.subject->key.bytes());
    const bool joins = request.place.line == Place::Line::join;
    const bool rejoins = request.place.after_grant == Place::AfterGrant::rejoin;
    Command command(script, 4, joins ? 7 : 3);
    command.add(names.record).add(floor_name).add(names.line).add(names.tickets);
    command.add(request.attempt).add(request.lease.count()).add(*owners_.of(request.subject->owner));
    if (joins)
        command.add(request.place.ticket)
            .add(request.place.ticket_lease.count())
            .add(rejoins ? "rejoin" : "leave")
            .add(instance_);
    const auto answer = [subject = request.subject, done = std::move(done)](Result<ReplyPtr> reply) {
        if (reply) return done(acquire_answer(**reply, subject->key));
        done(in_record(reply.error(), subject->key));
    };
    links_->call(Lane::main, call.route, script_request(command, script, call, is_acquire_answer, answer));
}

void DlockLayout::renew(std::vector<RenewItem> items, Call call, Completion<std::vector<RenewAnswer>> done) {
    const auto gather = std::make_shared<Gather>(items.size(), std::move(done));
    std::vector<std::size_t> leases;
    std::vector<std::size_t> tickets;
    for (std::size_t i = 0; i < items.size(); ++i)
        (std::holds_alternative<GrantId>(items[i].id) ? leases : tickets).push_back(i);
    for (auto& part : split(leases)) {
        Command command(DlockScripts::get().renew_leases, part.size(), 2 * part.size());
        for (const std::size_t i : part) command.add(Names(items[i].subject->key.bytes()).record);
        for (const std::size_t i : part)
            command.add(std::get<GrantId>(items[i].id)).add(items[i].lease.count());
        send_renewals(*links_, call, {std::move(command), DlockScripts::get().renew_leases, letters},
                      std::move(part), gather);
    }
    for (auto& part : split(tickets)) {
        Command command(DlockScripts::get().renew_tickets, 3 * part.size(), 2 * part.size());
        for (const std::size_t i : part) add_names(command, items[i].subject->key);
        for (const std::size_t i : part)
            command.add(std::get<TicketId>(items[i].id)).add(items[i].lease.count());
        send_renewals(*links_, call, {std::move(command), DlockScripts::get().renew_tickets, turns},
                      std::move(part), gather);
    }
}

void DlockLayout::release(const ReleaseRequest& request, Call call, Completion<Result<Released>> done) {
    const Script& script = DlockScripts::get().release;
    Command command(script, 3, request.ticket ? 2 : 1);
    add_names(command, request.subject->key);
    command.add(request.attempt);
    if (request.ticket) command.add(*request.ticket);
    const auto answer = [subject = request.subject, done = std::move(done)](Result<ReplyPtr> reply) {
        const Result<long long> code = status_of(reply, subject->key);
        if (!code) return done(code.error());
        done(*code == 1 ? Released::released : Released::not_owner);
    };
    links_->call(Lane::main, call.route, script_request(command, script, call, is_status_answer, answer));
}

std::unique_ptr<Watch> DlockLayout::watch(const SubjectPtr&, const TicketId& ticket,
                                          std::function<void(Change)> changed) {
    return subscriber_->watch(ticket, std::move(changed));
}

void DlockLayout::inspect(const InspectRequest& request, Call call, Completion<Result<Page>> done) {
    if (request.only) return look_at(links_, *request.only, call, std::move(done));
    list_records(links_, loop_, request.filter, call, std::move(done));
}

/// The script cannot hash: the stored id behind `seen` is looked up first, and then only that id is ended.
void DlockLayout::force_release(const Key& key, const std::string& seen, Call call,
                                Completion<Result<Forced>> done) {
    find_holder(
        links_, key, call, [links = links_, key, seen, call, done = std::move(done)](Result<std::string> id) {
            if (!id) return done(id.error());
            if (id->empty()) return done(Forced::already_free);
            if (public_id_of_token(*id) != seen) return done(Forced::moved_on);
            const Script& script = DlockScripts::get().force;
            Command command(script, 3, 1);
            add_names(command, key);
            command.add(*id);
            const auto answer = [key, done](Result<ReplyPtr> reply) {
                const Result<long long> code = status_of(reply, key);
                if (!code) return done(code.error());
                done(*code == 1 ? Forced::done : *code == 0 ? Forced::already_free : Forced::moved_on);
            };
            links->call(Lane::side, call.route,
                        script_request(command, script, call, is_status_answer, answer));
        });
}

void DlockLayout::check(Call call, Completion<Result<std::vector<Finding>>> done) {
    redis::check(links_, loop_, call, std::move(done));
}

void DlockLayout::scan(const ScanRequest& request, Call call, Completion<Result<ScanPage>> done) {
    scan_all(links_, request, call, std::move(done));
}

void DlockLayout::forget(const Key& key, Call call, Completion<Result<void>> done) {
    const Script& script = DlockScripts::get().forget;
    Command command(script, 4, 0);
    const Names names(key.bytes());
    command.add(names.record).add(names.line).add(names.tickets).add(floor_name);
    const auto answer = [done = std::move(done)](const Result<ReplyPtr>& reply) {
        done(reply ? Result<void>() : Result<void>(reply.error()));
    };
    links_->call(Lane::side, call.route, script_request(command, script, call, is_integer, answer));
}

}  // namespace dlock::store::redis
