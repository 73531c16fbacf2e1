// SPDX-License-Identifier: Apache-2.0
#include "support/fault_store.hpp"

#include "store/registry.hpp"
#include "support/waiting.hpp"

namespace dlock::testing {

std::string_view to_string(Harm harm) noexcept {
    switch (harm) {
        case Harm::none:
            return "none";
        case Harm::refused:
            return "refused";
        case Harm::unknown_before:
            return "unknown_before";
        case Harm::silent_before:
            return "silent_before";
        case Harm::unknown_after:
            return "unknown_after";
        case Harm::silent_after:
            return "silent_after";
        case Harm::late:
            return "late";
        case Harm::doubled:
            return "doubled";
    }
    return "?";
}

void FaultPlan::set(Rule rule) {
    const std::lock_guard lock(mutex_);
    rule_ = std::move(rule);
    number_ = 0;
    fired_ = 0;
}

void FaultPlan::fail_nth(std::size_t n, Harm harm) {
    set([n, harm](Op, std::size_t number) { return number == n ? harm : Harm::none; });
}

std::size_t FaultPlan::fired() const {
    const std::lock_guard lock(mutex_);
    return fired_;
}

void FaultPlan::count_answer(Op op) {
    const std::lock_guard lock(mutex_);
    ++answered_.at(static_cast<std::size_t>(op));
    counted_.notify_all();
}

bool FaultPlan::wait_for_answered(Op op, std::size_t count) {
    std::unique_lock lock(mutex_);
    return counted_.wait_for(lock, patience, [&] { return answered(op) >= count; });
}

void FaultPlan::swallow_pushes(std::function<bool()> rule) {
    const std::lock_guard lock(mutex_);
    swallow_ = std::move(rule);
}

Harm FaultPlan::next(Op op) {
    ++calls_.at(static_cast<std::size_t>(op));
    const std::lock_guard lock(mutex_);
    const Harm harm = rule_ ? rule_(op, ++number_) : Harm::none;
    if (harm != Harm::none) ++fired_;
    return harm;
}

bool FaultPlan::pushed() {
    ++pushes_;
    const std::lock_guard lock(mutex_);
    return !(swallow_ && swallow_());
}

FaultStore::FaultStore(std::unique_ptr<store::Store> inner, std::shared_ptr<FaultPlan> plan,
                       store::Loop& loop)
    : plan_(std::move(plan)), loop_(loop), inner_(std::move(inner)) {}

const store::Capabilities& FaultStore::capabilities() const noexcept { return inner_->capabilities(); }

template <class Answer>
store::Completion<Answer> FaultStore::delayed(store::Completion<Answer> done) {
    return [this, done = std::move(done)](Answer answer) mutable {
        auto timer = loop_.timer([done = std::move(done), answer = std::move(answer)] { done(answer); });
        timer->set(loop_.now() + plan_->delay);
        const std::lock_guard lock(mutex_);
        timers_.push_back(std::move(timer));
    };
}

namespace {

enum class Copy { first, second };

/// The two copies of a doubled call: the answer of the first, once the second has taken effect too.
template <class Answer>
class Doubled {
public:
    explicit Doubled(store::Completion<Answer> done) : done_(std::move(done)) {}

    void answered(Copy copy, Answer answer) {
        {
            const std::lock_guard lock(mutex_);
            if (copy == Copy::first) first_ = std::move(answer);
            if (++count_ < 2) return;
        }
        done_(std::move(*first_));
    }

private:
    const store::Completion<Answer> done_;
    std::mutex mutex_;
    std::optional<Answer> first_;
    int count_ = 0;
};

}  // namespace

template <class Answer>
void FaultStore::perform(Op op, const Send<Answer>& send, store::Completion<Answer> taken_in,
                         const std::function<Answer(Error)>& failed) {
    store::Completion<Answer> done = [plan = plan_, op, taken_in = std::move(taken_in)](Answer answer) {
        taken_in(std::move(answer));
        plan->count_answer(op);
    };
    const Error refused(errc::unavailable, "refused by the fault plan", Fault::retry);
    const Error unknown(errc::unknown_outcome, "no answer, by the fault plan", Fault::indeterminate);
    switch (plan_->next(op)) {
        case Harm::none:
            return send(std::move(done));
        case Harm::refused:
            return done(failed(refused));
        case Harm::unknown_before:
            return done(failed(unknown));
        case Harm::silent_before:
            return;
        case Harm::unknown_after:
            return send([done = std::move(done), answer = failed(unknown)](const Answer&) { done(answer); });
        case Harm::silent_after:
            return send([](const Answer&) {});
        case Harm::late:
            return send(delayed(std::move(done)));
        case Harm::doubled: {
            const auto both = std::make_shared<Doubled<Answer>>(std::move(done));
            send([both](Answer answer) { both->answered(Copy::first, std::move(answer)); });
            return send([both](Answer answer) { both->answered(Copy::second, std::move(answer)); });
        }
    }
}

void FaultStore::acquire(const store::AcquireRequest& request, store::Call call,
                         store::Completion<store::AcquireAnswer> done) {
    const Send<store::AcquireAnswer> send = [this, request, call](auto answered) {
        inner_->acquire(request, call, std::move(answered));
    };
    perform<store::AcquireAnswer>(Op::acquire, send, std::move(done),
                                  [](Error error) { return store::AcquireAnswer(std::move(error)); });
}

void FaultStore::renew(std::vector<store::RenewItem> items, store::Call call,
                       store::Completion<std::vector<store::RenewAnswer>> done) {
    using Answers = std::vector<store::RenewAnswer>;
    const std::size_t count = items.size();
    const Send<Answers> send = [this, items = std::move(items), call](auto answered) {
        inner_->renew(items, call, std::move(answered));
    };
    perform<Answers>(Op::renew, send, std::move(done), [count](const Error& error) {
        store::RenewAnswer unknown;
        unknown.detail = error.detail;
        return Answers(count, unknown);
    });
}

void FaultStore::release(const store::ReleaseRequest& request, store::Call call,
                         store::Completion<Result<store::Released>> done) {
    using Answer = Result<store::Released>;
    const Send<Answer> send = [this, request, call](auto answered) {
        inner_->release(request, call, std::move(answered));
    };
    perform<Answer>(Op::release, send, std::move(done), [](Error error) { return Answer(std::move(error)); });
}

std::unique_ptr<store::Watch> FaultStore::watch(const store::SubjectPtr& subject,
                                                const store::TicketId& ticket,
                                                std::function<void(store::Change)> changed) {
    return inner_->watch(subject, ticket, [plan = plan_, changed = std::move(changed)](store::Change change) {
        if (plan->pushed()) changed(change);
    });
}

void FaultStore::inspect(const store::InspectRequest& request, store::Call call,
                         store::Completion<Result<Page>> done) {
    const Send<Result<Page>> send = [this, request, call](auto answered) {
        inner_->inspect(request, call, std::move(answered));
    };
    perform<Result<Page>>(Op::inspect, send, std::move(done),
                          [](Error error) { return Result<Page>(std::move(error)); });
}

void FaultStore::force_release(const Key& key, const std::string& seen, store::Call call,
                               store::Completion<Result<Forced>> done) {
    const Send<Result<Forced>> send = [this, key, seen, call](auto answered) {
        inner_->force_release(key, seen, call, std::move(answered));
    };
    perform<Result<Forced>>(Op::force_release, send, std::move(done),
                            [](Error error) { return Result<Forced>(std::move(error)); });
}

void FaultStore::configure(const store::ConfigureRequest& request, store::Call call,
                           store::Completion<Result<store::Configured>> done) {
    using Answer = Result<store::Configured>;
    const Send<Answer> send = [this, request, call](auto answered) {
        inner_->configure(request, call, std::move(answered));
    };
    perform<Answer>(Op::configure, send, std::move(done),
                    [](Error error) { return Answer(std::move(error)); });
}

void FaultStore::check(store::Call call, store::Completion<Result<std::vector<Finding>>> done) {
    inner_->check(call, std::move(done));
}

std::function<Result<std::unique_ptr<store::Store>>(const store::StoreEnv&)> faulty(
    std::string url, std::shared_ptr<FaultPlan> plan) {
    return [url = std::move(url),
            plan = std::move(plan)](const store::StoreEnv& env) -> Result<std::unique_ptr<store::Store>> {
        auto inner = store::open_store(url, env);
        if (!inner) return std::move(inner).error();
        return std::unique_ptr<store::Store>(std::make_unique<FaultStore>(std::move(*inner), plan, env.loop));
    };
}

}  // namespace dlock::testing
