// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <unistd.h>

#include "core/text.hpp"
#include "engine/attempt.hpp"
#include "engine/blocking.hpp"
#include "engine/fork.hpp"
#include "engine/with_lock.hpp"
#include "engine/withdrawal.hpp"
#include "store/upkeep.hpp"

namespace dlock::engine {

using namespace std::chrono_literals;

namespace {

std::string host_name() {
    std::array<char, 256> name{};
    return gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : std::string();
}

struct InstanceTag;

}  // namespace

Engine::Engine(ClientOptions options, Identity identity, std::shared_ptr<Observer> observer,
               std::unique_ptr<Host> host)
    : options_(options),
      observer_(std::move(observer)),
      fork_generation_(fork_generation()),
      host_(std::move(host)) {
    auto owner = std::make_shared<Owner>();
    owner->service = std::move(identity.service);
    owner->host = host_name();
    owner->pid = getpid();
    owner->instance = core::to_hex(core::random_id<core::Id16<InstanceTag>>().raw());
    owner_ = std::move(owner);
}

Result<std::shared_ptr<Engine>> Engine::create(const StoreFactory& factory, ClientOptions options,
                                               Identity identity, std::shared_ptr<Observer> observer,
                                               std::unique_ptr<Host> host) {
    if (auto ok = options.validate(); !ok) return std::move(ok).error();
    if (auto ok = core::check_text("service", identity.service, 256); !ok) return std::move(ok).error();
    auto* raw = new Engine(options, std::move(identity), std::move(observer), std::move(host));
    // The parent's engine is left as it is in a forked child: its threads are not there, its connections not
    // ours.
    std::shared_ptr<Engine> engine(raw, [](Engine* e) {
        if (!e->inert()) delete e;
    });
    auto store = factory({engine->host_->loop(), engine->owner_->instance, options.call_timeout});
    if (!store) return std::move(store).error();
    engine->store_ = std::move(*store);
    engine->timer_ = engine->host_->loop().timer([raw] { raw->on_timer(); });
    enlist(engine);
    return engine;
}

Engine::~Engine() {
    static_cast<void>(close());
    // While its threads end they may still call back, and need all the rest.
    store_.reset();
}

bool Engine::inert() const noexcept { return fork_generation() != fork_generation_; }

Result<void> Engine::usable() const {
    if (inert())
        return Error(errc::unsupported, "this client was opened before fork(); open a new one in the child");
    return {};
}

void Engine::arm() {
    const TimePoint next = schedule_.earliest();
    if (next >= armed_) return;
    armed_ = next;
    timer_->set(next);
}

void Engine::tell(Event event, Effects& effects) {
    if (!observer_) return;
    effects.add([this, event = std::move(event)] {
        host_->deliver([observer = observer_, event] { observer->on_event(event); });
    });
}

void Engine::tell_of(const LeaseState& lease, Event::Kind kind, const char* detail, Effects& effects) {
    if (!observer_) return;
    Event event(kind, now(), lease.subject->key, core::public_id(lease.grant));
    event.fence = lease.fence();
    event.detail = detail;
    tell(std::move(event), effects);
}

Result<Page> Engine::inspect(store::InspectRequest request) {
    const auto limit = std::max<std::chrono::milliseconds>(options_.call_timeout, 10s);
    return blocking<Page>(limit, errc::unavailable, [&](auto done) {
        store_->inspect(request, {now() + limit, {}}, std::move(done));
    });
}

Result<Forced> Engine::force_release(const Key& key, std::string_view seen) {
    if (auto ok = key.check(); !ok) return std::move(ok).error();
    const auto limit = 4 * options_.call_timeout;
    auto forced = blocking<Forced>(limit, errc::unknown_outcome, [&](auto done) {
        store_->force_release(key, std::string(seen), {now() + limit, {}}, std::move(done));
    });
    if (forced && *forced == Forced::done) {
        with_lock([&](TimePoint at, Effects& effects) {
            tell(Event(Event::Kind::forced, at, key, std::string(seen)), effects);
        });
    }
    return forced;
}

Result<std::uint32_t> Engine::configure(store::ConfigureRequest request) {
    if (auto ok = request.key.check(); !ok) return std::move(ok).error();
    if (auto ok = check_wanted({core::Mode::permit, request.permits}, {}); !ok) return std::move(ok).error();
    const auto limit = 4 * options_.call_timeout;
    const auto answer = blocking<store::Configured>(limit, errc::unknown_outcome, [&](auto done) {
        store_->configure(request, {now() + limit, {}}, std::move(done));
    });
    if (!answer) return answer.error();
    if (answer->changed) return answer->permits;
    return Error(errc::limit_differs,
                 "permits: the key has " + std::to_string(answer->permits) + " now; look again");
}

Result<std::vector<Finding>> Engine::findings() {
    const auto limit = std::max<std::chrono::milliseconds>(3 * options_.call_timeout, 3s);
    return blocking<std::vector<Finding>>(limit, errc::unavailable, [&](auto done) {
        store_->check({now() + limit, {}}, std::move(done));
    });
}

Result<ScanPage> Engine::scan(const ScanRequest& request) {
    auto* upkeep = dynamic_cast<store::Upkeep*>(store_.get());
    if (upkeep == nullptr)
        return Error(errc::unsupported, "this store holds locks of dlock only; use dlock list");
    const auto limit = std::max<std::chrono::milliseconds>(options_.call_timeout, 10s);
    return blocking<ScanPage>(limit, errc::unavailable, [&](auto done) {
        upkeep->scan(request, {now() + limit, {}}, std::move(done));
    });
}

Result<void> Engine::forget(const Key& key) {
    if (auto ok = key.check(); !ok) return ok;
    auto* upkeep = dynamic_cast<store::Upkeep*>(store_.get());
    if (upkeep == nullptr) return {};
    const auto limit = options_.call_timeout;
    return blocking<void>(limit, errc::unknown_outcome, [&](auto done) {
        upkeep->forget(key, {now() + limit, {}}, std::move(done));
    });
}

void Engine::progressed(const LeasePtr& lease) {
    if (inert()) return;
    with_lock([&](TimePoint at, Effects&) {
        if (lease->phase != LeaseState::Phase::held) return;
        lease->machine.progressed(at);
        schedule_.set(*lease, lease->machine.due());
    });
}

Result<store::RenewAnswer> Engine::ask_renewal(store::RenewItem item, TimePoint sent) {
    const auto limit = options_.call_timeout;
    auto answers = blocking<std::vector<store::RenewAnswer>>(limit, errc::unknown_outcome, [&](auto done) {
        store_->renew({std::move(item)}, {sent + limit, {}}, std::move(done));
    });
    if (!answers) return std::move(answers).error();
    return std::move(answers->front());
}

Result<void> Engine::renew_now(const LeasePtr& lease) {
    if (!lease->held()) return Error(errc::lost, "the lease is over");
    const TimePoint sent = now();
    core::milliseconds asked{};
    with_lock([&](TimePoint, Effects&) { asked = lease->machine.lease_at(sent); });
    if (asked <= 0ms) return Error(errc::lost, "the lease has reached its limit");
    const auto answer = ask_renewal({lease->subject, lease->grant, asked, lease->handle}, sent);
    if (!answer) return answer.error();
    with_lock([&](TimePoint at, Effects& effects) {
        lease_answered(lease, *answer, {sent, asked}, at, effects);
    });
    return renewed(*answer);
}

Result<void> Engine::renewed(const store::RenewAnswer& answer) {
    switch (answer.renewal) {
        case store::Renewal::renewed:
        case store::Renewal::held:
            return {};
        case store::Renewal::lost:
            return Error(errc::lost, "the store no longer has the grant");
        case store::Renewal::unknown:
            break;
    }
    return Error(errc::unknown_outcome, "the renewal was not confirmed: " + answer.detail);
}

Result<void> Engine::renew(const LeaseId& id, std::chrono::milliseconds lease) {
    AcquireOptions options;
    options.lease = lease;
    if (auto ok = check_acquire(id.key(), options, {}); !ok) return ok;
    const auto subject = std::make_shared<const store::Subject>(id.key(), owner_);
    const auto answer = ask_renewal({subject, core::grant_id(id.secret()), lease, id.handle()}, now());
    if (!answer) return answer.error();
    return renewed(*answer);
}

Result<void> Engine::release(const LeaseId& id) {
    const auto subject = std::make_shared<const store::Subject>(id.key(), owner_);
    const auto limit = options_.call_timeout;
    auto answer = blocking<store::Released>(limit, errc::unknown_outcome, [&](auto done) {
        store::ReleaseRequest request;
        request.subject = subject;
        request.attempt = core::grant_id(id.secret());
        request.handle = id.handle();
        store_->release(request, {now() + limit, {}}, std::move(done));
    });
    if (!answer) return std::move(answer).error();
    return released(answer);
}

template <class Visit>
void Engine::each_line(Visit visit) const {
    for (const auto& [key, line] : lines_) visit(line);
    for (const LinePtr& line : lines_apart_) visit(line);
}

bool Engine::settled() const {
    bool waits = false;
    each_line([&](const LinePtr& line) { waits = waits || !line->queue.empty(); });
    return !waits && std::none_of(withdrawals_.begin(), withdrawals_.end(),
                                  [](const auto& w) { return !w->once_confirmed; });
}

void Engine::begin_close(TimePoint at, Effects& effects) {
    life_ = Life::closing;
    // Waiters first: a release must not hand the lock to one of them.
    std::vector<AttemptPtr> waiters;
    each_line(
        [&](const LinePtr& line) { waiters.insert(waiters.end(), line->queue.begin(), line->queue.end()); });
    for (const auto& attempt : waiters)
        apply(attempt, attempt->machine.stop({errc::cancelled, "the client was closed"}, at), at, effects);

    std::vector<LeasePtr> leases;
    schedule_.all([&](Timed& item) {
        if (auto lease = std::dynamic_pointer_cast<LeaseState>(item.shared_from_this()))
            leases.push_back(lease);
    });
    for (const auto& lease : leases) {
        begin_release(lease, at, effects);
        lease->lost_reason = "the client was closed";
        effects.add([this, lease] { host_->deliver([lease] { lease->lost_source.request_stop(); }); });
    }
}

/// What is still waiting when the time is up gets its answer here; nothing runs in the background any more.
void Engine::finish_close(TimePoint now, Effects& effects) {
    std::vector<LinePtr> lines;
    each_line([&](const LinePtr& line) { lines.push_back(line); });
    for (const LinePtr& line : lines) {
        for (const auto& attempt : std::vector(line->queue)) {
            schedule_.remove(*attempt);
            attempt->machine.abandon({errc::cancelled, "the client was closed before the store answered"});
            complete(attempt, nullptr, effects);
            attempt->line.reset();
        }
        line->queue.clear();
        unwatch(*line, effects);
    }
    for (const auto& withdrawal : std::vector(withdrawals_)) {
        if (auto tell = std::exchange(withdrawal->settled, nullptr))
            tell(Error(errc::unknown_outcome, "the client was closed before the store answered"), now,
                 effects);
        forget(withdrawal);
    }
    lines_.clear();
    lines_apart_.clear();
    life_ = Life::closed;
}

Result<void> Engine::close() {
    if (auto ok = usable(); !ok) return ok;
    bool first = false;
    with_lock([&](TimePoint at, Effects& effects) {
        first = life_ == Life::open;
        if (first) begin_close(at, effects);
    });
    if (!first) return {};
    bool all_settled = false;
    {
        std::unique_lock lock(mutex_);
        const auto limit = host_->loop().here() ? 0ms : options_.close_within;
        all_settled = idle_.wait_for(lock, limit, [&] { return settled(); });
    }
    with_lock([&](TimePoint at, Effects& effects) { finish_close(at, effects); });
    host_->stop();
    if (all_settled) return {};
    return Error(errc::unknown_outcome,
                 "not every release was confirmed by the store; those locks end with their leases");
}

}  // namespace dlock::engine
