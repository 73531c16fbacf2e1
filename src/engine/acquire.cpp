// SPDX-License-Identifier: Apache-2.0
/// Attempts and the local queue of a key.
#include <algorithm>
#include <string>
#include <utility>

#include "core/planted.hpp"
#include "engine/attempt.hpp"
#include "engine/describe.hpp"
#include "engine/gate.hpp"
#include "engine/with_lock.hpp"
#include "engine/withdrawal.hpp"

namespace dlock::engine {

using core::AttemptMachine;
using core::Planted;
using core::planted;
using namespace std::chrono_literals;

namespace {

using Action = AttemptMachine::Action;

/// A ticket is renewed, and with it the key looked at, every 1 to 2 s. The first look comes soon, in case the
/// lock was freed between the answer "queued" and the watch.
constexpr auto first_look = 20ms;

TimePoint later_look(TimePoint now) noexcept {
    std::uint8_t random = 0;
    core::random_bytes(&random, sizeof random);
    return now + 1s + 1s * random / 256;
}

/// For how long what a withdrawal is to take out can stand in the store.
std::chrono::milliseconds longest_trace(const store::AcquireRequest& request) noexcept {
    return std::max(request.lease, request.place.ticket_lease);
}

template <class... F>
struct Overloaded : F... {
    using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;  // for clang 14

}  // namespace

Result<void> Engine::check_acquire(const Key& key, const AcquireOptions& options,
                                   const Context& context) const {
    if (auto ok = usable(); !ok) return ok;
    if (auto ok = key.check(); !ok) return ok;
    if (auto ok = options.validate(); !ok) return ok;
    if (auto ok = context.validate(); !ok) return ok;
    const auto minimum = capabilities().minimum_lease;
    if (options.lease < minimum)
        return Error(errc::invalid_argument, "lease: " + std::to_string(options.lease.count()) +
                                                 " ms is less than this store's minimum of " +
                                                 std::to_string(minimum.count()) + " ms; use a longer lease");
    if (const auto limit = std::min(options.max_hold, options.progress_within); limit < minimum)
        return Error(errc::invalid_argument,
                     std::string(limit == options.max_hold ? "max_hold" : "progress_within") + ": " +
                         std::to_string(limit.count()) + " ms is less than this store's minimum lease of " +
                         std::to_string(minimum.count()) + " ms; give more");
    if (context.stop.stop_requested()) return Error(errc::cancelled, "stop was requested before the start");
    return {};
}

Result<void> Engine::check_wanted(const Wanted& wanted, const AcquireOptions& options) const {
    if (wanted.permits > Semaphore::most)
        return Error(errc::invalid_argument, "permits: " + std::to_string(wanted.permits) +
                                                 " is more than the limit of " +
                                                 std::to_string(Semaphore::most) + "; give less");
    if (wanted.mode != core::Mode::exclusive && !capabilities().modes)
        return Error(errc::unsupported,
                     "this store's layout has exclusive locks only, neither readers nor "
                     "permits; use its default layout");
    const bool leaves = wanted.result || options.hold_off > 0ms || options.at_least > 0ms;
    return leaves ? check_leaves() : Result<void>();
}

Result<void> Engine::check_leaves() const {
    if (capabilities().leaves) return {};
    return Error(errc::unsupported,
                 "this store's layout keeps nothing after a release, neither a "
                 "hold-off nor a result; use its default layout");
}

Result<void> Engine::check(const Key& key, const Wanted& wanted, const AcquireOptions& options,
                           const Context& context) const {
    if (auto ok = check_acquire(key, options, context); !ok) return ok;
    return check_wanted(wanted, options);
}

void Engine::deliver(std::function<void()> task, Lease::Deliver how) {
    if (how == Lease::Deliver::direct || inert()) return task();
    host_->deliver(std::move(task));
}

std::shared_ptr<const Owner> Engine::owner_of(const Context& context) const {
    if (context.biz_id.empty() && context.txid.empty() && context.note.empty()) return owner_;
    auto owner = std::make_shared<Owner>(*owner_);
    owner->biz_id = context.biz_id;
    owner->txid = context.txid;
    owner->note = context.note;
    return owner;
}

Engine::AttemptPtr Engine::make_attempt(const Key& key, const Wanted& wanted, const AcquireOptions& options,
                                        const Context& context, TimePoint now) const {
    const auto wait = options.wait.value_or(0ms);
    const auto until = wait == forever ? TimePoint::max() : now + wait;
    const auto shortest = std::min({options.lease, options.max_hold, options.progress_within});
    const core::AttemptRules rules{
        shortest, capabilities().skew, options_.call_timeout, options_.unavailable_after, until, wait != 0ms};
    auto attempt = std::make_shared<Attempt>(rules, now);
    core::random_bytes(attempt->secret.data(), attempt->secret.size());
    attempt->request.subject = std::make_shared<const store::Subject>(key, owner_of(context));
    attempt->request.attempt = core::grant_id(attempt->secret);
    attempt->request.mode = wanted.mode;
    attempt->request.permits = wanted.permits;
    attempt->request.lease = shortest;
    attempt->result = wanted.result;
    if (wanted.result) attempt->request.results = store::AcquireRequest::Results::want;
    if (capabilities().lines && rules.waits) attempt->request.place.line = store::Place::Line::join;
    attempt->options = options;
    return attempt;
}

Result<Lease> Engine::acquire(const Key& key, const Wanted& wanted, const AcquireOptions& options,
                              const Context& context) {
    Gate<Result<Lease>> gate;  // here is enough: the answer comes exactly once
    return *gate.ask([&] {
        start_acquire(
            key, wanted, options, context, [&gate](Result<Lease> got) { gate.put(std::move(got)); },
            Lease::Deliver::direct);
    });
}

void Engine::start_acquire(const Key& key, const Wanted& wanted, const AcquireOptions& options,
                           const Context& context, AcquireDone done, Lease::Deliver deliver) {
    if (auto ok = check(key, wanted, options, context); !ok)
        return this->deliver([done = std::move(done), error = std::move(ok).error()] { done(error); },
                             deliver);
    const TimePoint start = now();
    auto attempt = make_attempt(key, wanted, options, context, start);
    attempt->done = std::move(done);
    attempt->deliver = deliver;
    if (context.stop.stop_possible()) {
        attempt->on_stop.emplace(context.stop, [this, weak = std::weak_ptr(attempt)] {
            host_->loop().post([this, weak] {
                const auto stopped = std::static_pointer_cast<Attempt>(weak.lock());
                if (!stopped) return;
                with_lock([&](TimePoint at, Effects& effects) {
                    apply(stopped, stopped->machine.stop({errc::cancelled, "the wait was cancelled"}, at), at,
                          effects);
                });
            });
        });
    }
    with_lock_at(start, [&](TimePoint at, Effects& effects) { enqueue(attempt, at, effects); });
}

Engine::LinePtr Engine::line_of(const Key& key) {
    auto& line = lines_[key];
    if (!line) line = std::make_shared<KeyLine>(key, KeyLine::Of::key);
    return line;
}

Engine::LinePtr Engine::line_for(const store::AcquireRequest& request) {
    if (core::alone(request.mode)) return line_of(request.subject->key);
    return *lines_apart_.insert(std::make_shared<KeyLine>(request.subject->key, KeyLine::Of::one)).first;
}

void Engine::enqueue(const AttemptPtr& attempt, TimePoint now, Effects& effects) {
    attempt->line = line_for(attempt->request);
    const LinePtr line = attempt->line;
    const bool alone = line->queue.empty();
    line->queue.push_back(attempt);
    if (life_ != Life::open) {
        apply(attempt, attempt->machine.stop({errc::cancelled, "the client is closed"}, now), now, effects);
    } else if (const LeasePtr outer = held_already(*attempt)) {
        nested(attempt, outer, now, effects);
    } else if (!alone && !attempt->machine.waits()) {
        // Whoever will not wait does not overtake those of this process who do.
        Error busy{errc::contended,
                   std::to_string(line->queue.size() - 1) + " of this process wait for it already"};
        apply(attempt, attempt->machine.stop(std::move(busy), now), now, effects);
    } else {
        schedule_.set(*attempt, attempt->machine.due());
        next_head(line, now, effects);
    }
}

/// By the same transaction. A permit counts only where the attempt would join, since there may be more.
Engine::LeasePtr Engine::held_already(const Attempt& attempt) const {
    const auto& [key, owner] = *attempt.request.subject;
    if (owner->txid.empty()) return nullptr;
    if (attempt.request.mode == core::Mode::permit && attempt.options.nested != Nested::join) return nullptr;
    const auto [first, last] = transactions_.equal_range(key);
    for (auto one = first; one != last; ++one) {
        const auto lease = std::static_pointer_cast<LeaseState>(one->second.lock());
        if (lease && lease->subject->owner->txid == owner->txid && lease->held()) return lease;
    }
    return nullptr;
}

void Engine::nested(const AttemptPtr& attempt, const LeasePtr& outer, TimePoint now, Effects& effects) {
    const bool enough = core::alone(outer->mode) || outer->mode == attempt->request.mode;
    if (attempt->options.nested != Nested::join || !enough) {
        Error error{errc::would_deadlock, enough ? "its transaction holds the key already; acquire it once, "
                                                   "outermost, or join with Nested::join"
                                                 : "its transaction reads the key already; release that "
                                                   "first, or try_upgrade it"};
        return apply(attempt, attempt->machine.stop(std::move(error), now), now, effects);
    }
    ++outer->handles;
    attempt->machine.abandon({errc::cancelled, "joined"});
    leave_line(attempt, now, effects);
    complete(attempt, outer, effects);
}

void Engine::next_head(const LinePtr& line, TimePoint now, Effects& effects) {
    if (line->queue.empty()) {
        unwatch(*line, effects);
        line->inherits = false;
        return forget_if_idle(line);
    }
    if (line->releasing != 0 || life_ != Life::open) return;
    const AttemptPtr head = line->queue.front();
    const bool inherits = std::exchange(line->inherits, false);
    const auto action = inherits ? head->machine.inherit(now) : head->machine.start(now);
    apply(head, action, now, effects);
}

void Engine::forget_if_idle(const LinePtr& line) {
    if (!line->queue.empty() || line->releasing != 0) return;
    schedule_.remove(*line);
    if (line->of == KeyLine::Of::key)
        lines_.erase(line->key);
    else
        lines_apart_.erase(line);
}

void Engine::apply(const AttemptPtr& attempt, Action action, TimePoint now, Effects& effects) {
    switch (action) {
        case Action::nothing:
            break;
        case Action::ask:
            ask(attempt, store::Route::usual, now, effects);
            break;
        case Action::ask_fresh:
            ask(attempt, store::Route::fresh, now, effects);
            break;
        case Action::withdraw:
            take_out(attempt, now, effects);
            break;
        case Action::hold:
            return hold(attempt, now, effects);
        case Action::fail:
            return fail(attempt, now, effects);
    }
    if (attempt->machine.over()) return;
    schedule_.set(*attempt, attempt->machine.due());
    if (attempt->machine.waiting()) watch(attempt->line, now, effects);
}

void Engine::ask(const AttemptPtr& attempt, store::Route route, TimePoint now, Effects& effects) {
    auto& request = attempt->request;
    auto& line = *attempt->line;
    const auto next_id = attempt->machine.take_next_id();
    if (next_id == AttemptMachine::NextId::fresh_withdraw_old) {
        withdraw({request.subject, request.attempt, request.mode, {}, std::nullopt},
                 Withdrawal::Until::insist, now + request.lease, now, effects);
        line.unsettled = true;
    }
    if (next_id != AttemptMachine::NextId::same) {
        core::random_bytes(attempt->secret.data(), attempt->secret.size());
        request.attempt = core::grant_id(attempt->secret);
    }
    if (request.place.line == store::Place::Line::join) {
        if (line.ticket == store::TicketId{}) {
            line.ticket = core::random_id<store::TicketId>();
            line.placed = line.unsettled = false;
        }
        request.place.ticket = line.ticket;
        attempt->rejoins = line.queue.size() > 1;
        request.place.after_grant =
            attempt->rejoins ? store::Place::AfterGrant::rejoin : store::Place::AfterGrant::leave;
    }
    const store::Call call{attempt->machine.due(), route};
    effects.add([this, attempt, sent = request, call, number = attempt->machine.call()] {
        store_->acquire(sent, call, [this, attempt, number](store::AcquireAnswer answer) {
            answered(attempt, number, std::move(answer));
        });
    });
}

void Engine::answered(const AttemptPtr& attempt, unsigned call, store::AcquireAnswer answer) {
    with_lock([&](TimePoint now, Effects& effects) {
        if (attempt->machine.over()) return;
        const bool not_yet =
            std::holds_alternative<store::Queued>(answer) || std::holds_alternative<store::Contended>(answer);
        const auto action = feed_answer(*attempt, call, answer, now);
        if (not_yet && action == Action::nothing) tell_waiting(*attempt, effects);
        apply(attempt, action, now, effects);
    });
}

Action Engine::feed_answer(Attempt& attempt, unsigned call, store::AcquireAnswer& answer, TimePoint now) {
    auto& machine = attempt.machine;
    return std::visit(Overloaded{
                          [&](store::Granted& granted) {
                              const auto counted_from = granted.counted_from;
                              attempt.grant = std::move(granted);
                              return machine.granted(call, counted_from, now);
                          },
                          [&](store::Queued& queued) {
                              attempt.holder = std::move(queued.holder);
                              attempt.line->placed = true;
                              return machine.queued(call, now);
                          },
                          [&](store::Contended& contended) {
                              attempt.holder = std::move(contended.holder);
                              return machine.contended(call, contended.retry_in, now);
                          },
                          [&](store::Done& done) {
                              if (attempt.result) *attempt.result = std::move(done);
                              return machine.done(call, now);
                          },
                          [&](const Error& error) { return machine.failed(call, error, now); },
                      },
                      answer);
}

/// The wait is over: the ticket goes, unless others of this process stand behind it; a grant goes in any
/// case.
void Engine::take_out(const AttemptPtr& attempt, TimePoint now, Effects& effects) {
    auto& line = *attempt->line;
    store::ReleaseRequest request{
        attempt->request.subject, attempt->request.attempt, attempt->request.mode, {}, {}};
    if (attempt->grant) request.handle = attempt->grant->handle;
    bool unsettled = attempt->machine.leftover();
    line.unsettled = line.unsettled || unsettled;
    if (line.queue.size() == 1 && line.ticket != store::TicketId{}) {
        request.ticket = line.ticket;
        unsettled = std::exchange(line.unsettled, false);
        line.placed = false;
        give_up_ticket(attempt, now, effects);
    }
    attempt->taken_out = true;
    auto withdrawal =
        withdraw(std::move(request), unsettled ? Withdrawal::Until::insist : Withdrawal::Until::confirmed,
                 now + longest_trace(attempt->request), now, effects);
    withdrawal->settled = [this, attempt](const Result<store::Released>& answer, TimePoint at,
                                          Effects& more) {
        const auto how =
            answer ? AttemptMachine::Withdrawn::confirmed : AttemptMachine::Withdrawn::unconfirmed;
        apply(attempt, attempt->machine.withdrawn(how), at, more);
    };
}

void Engine::hold(const AttemptPtr& attempt, TimePoint now, Effects& effects) {
    auto lease = make_lease(attempt->request, attempt->secret, std::move(*attempt->grant), attempt->options,
                            attempt->machine.counted_from(), now, effects);
    auto& line = *attempt->line;
    const bool others = line.queue.size() > 1;
    lease->unsettled = attempt->machine.unsettled();
    line.unsettled = line.unsettled || lease->unsettled;
    line.placed = attempt->rejoins;
    line.inherits = others && attempt->rejoins && !lease->unsettled;
    if (!others || !attempt->rejoins) give_up_ticket(attempt, now, effects);
    leave_line(attempt, now, effects);
    complete(attempt, std::move(lease), effects);
}

void Engine::fail(const AttemptPtr& attempt, TimePoint now, Effects& effects) {
    auto& line = *attempt->line;
    const auto& request = attempt->request;
    const bool others = line.queue.size() > 1;
    if (attempt->machine.leftover() && !attempt->taken_out) {
        line.unsettled = true;
        withdraw({request.subject, request.attempt, request.mode, {}, {}}, Withdrawal::Until::insist,
                 now + request.lease, now, effects);
    }
    if (!others) give_up_ticket(attempt, now, effects);
    leave_line(attempt, now, effects);
    complete(attempt, nullptr, effects);
}

/// Nobody here waits behind the ticket any more. A new waiter gets a new one, which no late call about this
/// one can harm.
void Engine::give_up_ticket(const AttemptPtr& attempt, TimePoint now, Effects& effects) {
    auto& line = *attempt->line;
    const auto& request = attempt->request;
    unwatch(line, effects);
    const auto ticket = std::exchange(line.ticket, {});
    const bool placed = std::exchange(line.placed, false);
    const bool unsettled = std::exchange(line.unsettled, false);
    if (ticket == store::TicketId{} || (!placed && !unsettled)) return;
    withdraw({request.subject, {}, request.mode, {}, ticket},
             unsettled ? Withdrawal::Until::insist : Withdrawal::Until::confirmed,
             now + request.place.ticket_lease, now, effects);
}

void Engine::leave_line(const AttemptPtr& attempt, TimePoint now, Effects& effects) {
    const LinePtr line = attempt->line;
    const bool was_head = line->queue.front() == attempt;
    schedule_.remove(*attempt);
    std::erase(line->queue, attempt);
    attempt->line.reset();
    if (was_head && !planted(Planted::waiter_dropped)) next_head(line, now, effects);
    if (!was_head) forget_if_idle(line);
    if (life_ == Life::closing) idle_.notify_all();
}

void Engine::complete(const AttemptPtr& attempt, LeasePtr lease, Effects& effects) {
    effects.add([this, attempt, lease = std::move(lease)] {
        attempt->on_stop.reset();
        auto answer = [this, done = std::exchange(attempt->done, nullptr), attempt, lease] {
            if (!lease) return done(with_holder(attempt->machine.error(), attempt->holder));
            auto self = weak_from_this().lock();
            if (!self) return done(Error(errc::cancelled, "the client was closed"));
            done(Lease(std::move(self), lease));
        };
        if (attempt->deliver == Lease::Deliver::direct) return answer();
        host_->deliver(std::move(answer));
    });
}

void Engine::changed(const LinePtr& line, TimePoint now, Effects& effects) {
    if (line->queue.empty()) return;
    const AttemptPtr head = line->queue.front();
    apply(head, head->machine.changed(now), now, effects);
}

void Engine::watch(const LinePtr& line, TimePoint now, Effects& effects) {
    if (line->next_look == TimePoint::max()) {
        line->next_look = now + first_look;
        schedule_.set(*line, line->next_look);
    }
    if (line->watching || !capabilities().notify) return;
    line->watching = true;
    effects.add([this, line, subject = line->queue.front()->request.subject, ticket = line->ticket] {
        auto made = store_->watch(subject, ticket, [this, weak = std::weak_ptr<Timed>(line)](store::Change) {
            const auto alive = std::static_pointer_cast<KeyLine>(weak.lock());
            if (!alive) return;
            with_lock([&](TimePoint at, Effects& more) { changed(alive, at, more); });
        });
        const std::lock_guard lock(mutex_);
        // Left, or stands behind another ticket by now: the watch ends with `made`, after the lock.
        if (line->watching && line->ticket == ticket) line->watch.swap(made);
    });
}

void Engine::unwatch(KeyLine& line, Effects& effects) {
    line.watching = false;
    line.next_look = TimePoint::max();
    schedule_.remove(line);
    if (!line.watch) return;
    effects.add([ended = std::shared_ptr<store::Watch>(std::move(line.watch))] {});
}

void Attempt::on_time(Engine& engine, TimePoint now, Effects& effects) {
    const auto self = std::static_pointer_cast<Attempt>(shared_from_this());
    engine.apply(self, machine.timer(now), now, effects);
}

bool KeyLine::may_come_early(TimePoint now) const {
    return next_look != TimePoint::max() && next_look - now < 500ms;
}

void KeyLine::on_time(Engine& engine, TimePoint now, Effects&) {
    if (queue.empty() || ticket == store::TicketId{}) return;
    next_look = later_look(now);
    engine.schedule_.set(*this, next_look);
    if (planted(Planted::ticket_not_renewed)) return;
    const auto& place = queue.front()->request.place;
    engine.usual_.add({queue.front()->request.subject, ticket, place.ticket_lease, {}}, shared_from_this());
}

void Engine::look_answered(const LinePtr& line, const store::RenewAnswer& answer, TimePoint now,
                           Effects& effects) {
    const bool looking = line->next_look != TimePoint::max();
    if (!looking || line->queue.empty() || planted(Planted::look_forgotten)) return;
    if (answer.renewal == store::Renewal::lost || answer.turn) return changed(line, now, effects);
    // A holder that stops renewing is noticed at the end of its lease, not up to 2 s later.
    if (!answer.holder_left) return;
    const auto end = now + std::max<core::nanoseconds>(*answer.holder_left, 50ms) + 2ms;
    if (end >= line->next_look) return;
    line->next_look = end;
    schedule_.set(*line, end);
}

void Engine::tell_waiting(Attempt& attempt, Effects& effects) {
    if (!observer_) return;
    Event event(Event::Kind::waiting, now(), attempt.request.subject->key,
                core::public_id(attempt.request.attempt));
    if (attempt.holder) event.detail = describe(*attempt.holder);
    tell(std::move(event), effects);
}

}  // namespace dlock::engine
