// SPDX-License-Identifier: Apache-2.0
#include "store/redis/dlock_layout.hpp"

#include <array>

#include "store/owner_json.hpp"
#include "store/redis/check.hpp"
#include "store/redis/dlock_answers.hpp"
#include "store/redis/dlock_inspect.hpp"
#include "store/redis/dlock_scripts.hpp"
#include "store/redis/holders_scripts.hpp"
#include "store/redis/names.hpp"
#include "store/redis/renewals.hpp"
#include "store/redis/scan_all.hpp"

namespace dlock::store::redis {
namespace {

using namespace std::chrono_literals;

/// A mutex has a form and scripts of its own.
bool holders_form(core::Mode mode, std::string_view handle) {
    return mode != core::Mode::exclusive || handle == holders_handle;
}

/// What is named in every script of a form that ends something.
Command ending_command(const Script& script, const Names& names, bool many, bool with_done,
                       std::size_t args) {
    Command command(script, 3U + (many ? 1U : 0U) + (with_done ? 1U : 0U), args);
    command.add(names.record);
    if (many) command.add(names.held());
    command.add(names.line).add(names.tickets);
    if (with_done) command.add(names.done());
    return command;
}

Command release_command(const ReleaseRequest& request, const Script& script, bool many) {
    Command command =
        ending_command(script, Names(request.subject->key.bytes()), many, false, request.ticket ? 2 : 1);
    command.add(request.attempt);
    if (request.ticket) command.add(*request.ticket);
    return command;
}

Command release_after_command(const ReleaseRequest& request, const Script& script, bool many) {
    Command command = ending_command(script, Names(request.subject->key.bytes()), many, true, 6);
    command.add(request.attempt);
    if (request.ticket)
        command.add(*request.ticket);
    else
        command.add("");
    const core::After& after = request.after;
    command.add(after.hold_off.count()).add(core::held_off(request.attempt));
    command.add(after.result ? after.keep.count() : 0).add(after.result ? *after.result : std::string());
    return command;
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

/// A place in line, where one is wanted.
void DlockLayout::add_place(Command& command, const Place& place) const {
    if (place.line != Place::Line::join) return;
    command.add(place.ticket)
        .add(place.ticket_lease.count())
        .add(place.after_grant == Place::AfterGrant::rejoin ? "rejoin" : "leave")
        .add(instance_);
}

void DlockLayout::send_acquire(const AcquireRequest& request, Command command, const Script& script,
                               Call call, Completion<AcquireAnswer> done) {
    const auto answer = [asked = Asked{request.subject, request.mode, request.permits},
                         done = std::move(done)](Result<ReplyPtr> reply) {
        if (reply) return done(acquire_answer(**reply, asked));
        done(in_record(reply.error(), asked.subject->key));
    };
    links_->call(Lane::main, call.route, script_request(command, script, call, is_acquire_answer, answer));
}

void DlockLayout::acquire(const AcquireRequest& request, Call call, Completion<AcquireAnswer> done) {
    if (request.mode != core::Mode::exclusive) return acquire_one_of_many(request, call, std::move(done));
    if (request.converts) return done(Error(errc::unsupported, "an exclusive lock has no other mode"));
    const bool wants = request.results == AcquireRequest::Results::want;
    const Script& script = wants ? DlockScripts::get().acquire_or_done : DlockScripts::get().acquire;
    const Names names(request.subject->key.bytes());
    Command command(script, wants ? 5 : 4, request.place.line == Place::Line::join ? 7 : 3);
    command.add(names.record).add(floor_name).add(names.line).add(names.tickets);
    if (wants) command.add(names.done());
    command.add(request.attempt).add(request.lease.count()).add(*owners_.of(request.subject->owner));
    add_place(command, request.place);
    send_acquire(request, std::move(command), script, call, std::move(done));
}

void DlockLayout::acquire_one_of_many(const AcquireRequest& request, Call call,
                                      Completion<AcquireAnswer> done) {
    if (request.converts) return convert(request, call, std::move(done));
    const bool wants = request.results == AcquireRequest::Results::want;
    const Script& script = wants ? HoldersScripts::get().acquire_or_done : HoldersScripts::get().acquire;
    const Names names(request.subject->key.bytes());
    Command command(script, wants ? 6 : 5, request.place.line == Place::Line::join ? 9 : 5);
    command.add(names.record).add(names.held()).add(floor_name).add(names.line).add(names.tickets);
    if (wants) command.add(names.done());
    command.add(request.attempt).add(request.lease.count()).add(letter_of(request.mode));
    command.add(std::int64_t{request.permits}).add(*owners_.of(request.subject->owner));
    add_place(command, request.place);
    send_acquire(request, std::move(command), script, call, std::move(done));
}

void DlockLayout::convert(const AcquireRequest& request, Call call, Completion<AcquireAnswer> done) {
    const Script& script = HoldersScripts::get().convert;
    const Names names(request.subject->key.bytes());
    Command command(script, 5, 3);
    command.add(names.record).add(names.held()).add(floor_name).add(names.line).add(names.tickets);
    command.add(request.attempt).add(letter_of(request.mode)).add(std::to_string(request.converts->value));
    send_acquire(request, std::move(command), script, call, std::move(done));
}

void DlockLayout::renew(std::vector<RenewItem> items, Call call, Completion<std::vector<RenewAnswer>> done) {
    const auto gather = std::make_shared<Gather>(items.size(), std::move(done));
    std::vector<std::size_t> leases;
    std::vector<std::size_t> of_many;
    std::vector<std::size_t> tickets;
    for (std::size_t i = 0; i < items.size(); ++i) {
        const bool lease = std::holds_alternative<GrantId>(items[i].id);
        (!lease ? tickets : items[i].handle == holders_handle ? of_many : leases).push_back(i);
    }
    for (auto& part : split(leases)) renew_leases(items, std::move(part), call, gather);
    for (auto& part : split(of_many)) renew_leases_of_many(items, std::move(part), call, gather);
    for (auto& part : split(tickets)) renew_tickets(items, std::move(part), call, gather);
}

void DlockLayout::renew_leases(const std::vector<RenewItem>& items, std::vector<std::size_t> part,
                               const Call& call, const std::shared_ptr<Gather>& gather) {
    const Script& script = DlockScripts::get().renew_leases;
    Command command(script, part.size(), 2 * part.size());
    for (const std::size_t i : part) command.add(Names(items[i].subject->key.bytes()).record);
    for (const std::size_t i : part) command.add(std::get<GrantId>(items[i].id)).add(items[i].lease.count());
    send_renewals(*links_, call, {std::move(command), script, letters}, std::move(part), gather);
}

void DlockLayout::renew_leases_of_many(const std::vector<RenewItem>& items, std::vector<std::size_t> part,
                                       const Call& call, const std::shared_ptr<Gather>& gather) {
    const Script& script = HoldersScripts::get().renew_leases;
    Command command(script, 2 * part.size(), 2 * part.size());
    for (const std::size_t i : part) {
        const Names names(items[i].subject->key.bytes());
        command.add(names.record).add(names.held());
    }
    for (const std::size_t i : part) command.add(std::get<GrantId>(items[i].id)).add(items[i].lease.count());
    send_renewals(*links_, call, {std::move(command), script, letters}, std::move(part), gather);
}

void DlockLayout::renew_tickets(const std::vector<RenewItem>& items, std::vector<std::size_t> part,
                                const Call& call, const std::shared_ptr<Gather>& gather) {
    const Script& script = DlockScripts::get().renew_tickets;
    Command command(script, 4 * part.size(), 2 * part.size());
    for (const std::size_t i : part) {
        const Names names(items[i].subject->key.bytes());
        command.add(names.record).add(names.line).add(names.tickets).add(names.held());
    }
    for (const std::size_t i : part) command.add(std::get<TicketId>(items[i].id)).add(items[i].lease.count());
    send_renewals(*links_, call, {std::move(command), script, turns}, std::move(part), gather);
}

void DlockLayout::release(const ReleaseRequest& request, Call call, Completion<Result<Released>> done) {
    const bool many = holders_form(request.mode, request.handle);
    const bool leaves = request.after.hold_off > 0ms || request.after.result;
    const auto& alone = DlockScripts::get();
    const auto& shared = HoldersScripts::get();
    const Script& script = leaves ? (many ? shared.release_after : alone.release_after)
                                  : (many ? shared.release : alone.release);
    Command command =
        leaves ? release_after_command(request, script, many) : release_command(request, script, many);
    const auto answer = [subject = request.subject, mode = request.mode, done = std::move(done)](
                            const Result<ReplyPtr>& reply) { done(released_of(reply, subject->key, mode)); };
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
        links_, key, seen, call,
        [links = links_, key, call, done = std::move(done)](const Result<FoundHolder>& found) {
            if (!found) return done(found.error());
            if (!found->held) return done(Forced::already_free);
            if (found->id.empty()) return done(Forced::moved_on);
            const Script& script = found->many ? HoldersScripts::get().force : DlockScripts::get().force;
            Command command = ending_command(script, Names(key.bytes()), found->many, false, 1);
            command.add(found->id);
            const auto answer = [key, done](const Result<ReplyPtr>& reply) {
                const Result<long long> code = status_of(reply, key, core::Mode::exclusive);
                if (!code) return done(code.error());
                done(*code == 1 ? Forced::done : *code == 0 ? Forced::already_free : Forced::moved_on);
            };
            links->call(Lane::side, call.route,
                        script_request(command, script, call, is_status_answer, answer));
        });
}

void DlockLayout::configure(const ConfigureRequest& request, Call call, Completion<Result<Configured>> done) {
    const Script& script = HoldersScripts::get().configure;
    Command command =
        ending_command(script, Names(request.key.bytes()), true, false, request.if_current ? 2 : 1);
    command.add(std::int64_t{request.permits});
    if (request.if_current) command.add(std::int64_t{*request.if_current});
    const auto answer = [key = request.key, done = std::move(done)](const Result<ReplyPtr>& reply) {
        done(configured_of(reply, key));
    };
    links_->call(Lane::side, call.route, script_request(command, script, call, is_configure_answer, answer));
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
