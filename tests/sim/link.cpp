// SPDX-License-Identifier: Apache-2.0
#include "sim/link.hpp"

#include <algorithm>
#include <utility>

namespace dlock::sim {

using namespace std::chrono_literals;

namespace {

/// A store gives up a call some time after the engine has: late answers are the engine's to ignore.
constexpr nanoseconds most_late_answer = 300ms;
constexpr nanoseconds most_repeat_delay = 500ms;

class SimWatch final : public store::Watch {
public:
    SimWatch(std::shared_ptr<Link> link, std::uint64_t number) : link_(std::move(link)), number_(number) {}
    SimWatch(const SimWatch&) = delete;
    SimWatch& operator=(const SimWatch&) = delete;
    ~SimWatch() override { link_->unwatch(number_); }

private:
    std::shared_ptr<Link> link_;
    std::uint64_t number_;
};

class SimStore final : public store::Store {
public:
    SimStore(std::shared_ptr<Link> link, const store::Capabilities& capabilities)
        : link_(std::move(link)), capabilities_(capabilities) {}

    [[nodiscard]] const store::Capabilities& capabilities() const noexcept override { return capabilities_; }
    void acquire(const store::AcquireRequest& request, store::Call call,
                 store::Completion<store::AcquireAnswer> done) override {
        link_->acquire(request, call, std::move(done));
    }
    void renew(std::vector<store::RenewItem> items, store::Call call,
               store::Completion<std::vector<store::RenewAnswer>> done) override {
        link_->renew(std::move(items), call, std::move(done));
    }
    void release(const store::ReleaseRequest& request, store::Call call,
                 store::Completion<Result<store::Released>> done) override {
        link_->release(request, call, std::move(done));
    }
    std::unique_ptr<store::Watch> watch(const store::SubjectPtr& subject, const TicketId& ticket,
                                        std::function<void(store::Change)> changed) override {
        link_->watch(subject->key.bytes(), ticket, ++last_watch_, std::move(changed));
        return std::make_unique<SimWatch>(link_, last_watch_);
    }
    // Listing and forcing are the operator's, who asks the simulated server itself.
    void inspect(const store::InspectRequest& /*request*/, store::Call /*call*/,
                 store::Completion<Result<Page>> done) override {
        done(Error(errc::unsupported, "not simulated"));
    }
    void force_release(const Key& /*key*/, const std::string& /*seen*/, store::Call /*call*/,
                       store::Completion<Result<Forced>> done) override {
        done(Error(errc::unsupported, "not simulated"));
    }
    void configure(const store::ConfigureRequest& /*request*/, store::Call /*call*/,
                   store::Completion<Result<store::Configured>> done) override {
        done(Error(errc::unsupported, "not simulated"));
    }
    void check(store::Call /*call*/, store::Completion<Result<std::vector<Finding>>> done) override {
        done(Error(errc::unsupported, "not simulated"));
    }

private:
    std::shared_ptr<Link> link_;
    store::Capabilities capabilities_;
    std::uint64_t last_watch_ = 0;
};

Error silence() { return {errc::unknown_outcome, "no answer"}; }
Error refusal() { return {errc::unavailable, "connection refused"}; }

std::vector<store::RenewAnswer> unknown(std::size_t count) {
    return std::vector<store::RenewAnswer>(count, store::RenewAnswer{});
}

}  // namespace

template <class Answer>
struct Link::Flight : Waiting {
    store::Completion<Answer> done;
    std::function<Answer(Origin)> apply;
    Answer silent;   ///< what "no answer" looks like
    Answer refused;  ///< what "not sent" looks like
    store::Route route = store::Route::usual;
    unsigned connection = 0;

    Flight(store::Completion<Answer> then, std::function<Answer(Origin)> at_server, Answer none, Answer no)
        : done(std::move(then)),
          apply(std::move(at_server)),
          silent(std::move(none)),
          refused(std::move(no)) {}
};

Link::Link(World& world, Server& server, Witness& witness, const Weather& weather,
           std::shared_ptr<Process> process, int client)
    : world_(world),
      server_(server),
      witness_(witness),
      weather_(weather),
      process_(std::move(process)),
      client_(client) {}

nanoseconds Link::travel() {
    const bool slow = world_.random.chance(weather_.slow);
    return world_.random.between(weather_.fastest, slow ? weather_.very_slow : weather_.slowest);
}

TimePoint Link::arrival(store::Route route, TimePoint& last) {
    const TimePoint at = world_.now() + travel();
    if (route == store::Route::fresh) return at + travel();
    last = std::max({at, last + 1ns, stalled_until_});
    return last;
}

bool Link::refuses(store::Route route) {
    if (!server_.up() || world_.random.chance(weather_.refuse)) return true;
    return route == store::Route::usual && world_.now() < down_until_;
}

template <class Answer>
void Link::answer(const FlightPtr<Answer>& flight, Answer with, nanoseconds after) {
    world_.after(after, [self = shared_from_this(), flight, with = std::move(with)]() mutable {
        self->process_->run(Process::Thread::loop, [flight, with = std::move(with)] {
            if (std::exchange(flight->answered, true)) return;
            flight->done(with);
        });
    });
}

template <class Answer>
void Link::send(store::Call call, FlightPtr<Answer> flight) {
    if (!process_->alive()) return;
    if (immediate_) return flight->done(flight->apply({client_, Origin::Copy::first}));
    if (refuses(call.route)) return answer(flight, flight->refused, travel());
    Random& random = world_.random;
    flight->route = call.route;
    flight->connection = connection_;
    const TimePoint given_up = process_->in_world(call.deadline) + random.between(0ns, most_late_answer);
    answer(flight, flight->silent, given_up - world_.now());
    if (call.route == store::Route::usual) {
        std::erase_if(on_usual_, [](const auto& waiting) { return waiting.expired(); });
        flight->no_answer = [this, weak = std::weak_ptr(flight)] {
            if (const auto alive = weak.lock()) answer(alive, alive->silent, travel());
        };
        on_usual_.push_back(flight);
    }
    if (random.chance(weather_.lose_request)) return;
    const TimePoint there = arrival(call.route, last_request_);
    const auto arrives = [self = shared_from_this(), flight](Origin::Copy copy) {
        return [self, flight, copy] { self->arrive(flight, copy); };
    };
    world_.at(there, arrives(Origin::Copy::first));
    if (random.chance(weather_.repeat))
        world_.at(there + random.between(1ns, most_repeat_delay), arrives(Origin::Copy::repeated));
}

template <class Answer>
void Link::arrive(const FlightPtr<Answer>& flight, Origin::Copy copy) {
    if (!server_.up()) return answer(flight, flight->silent, travel());
    const bool broken = flight->route == store::Route::usual && flight->connection != connection_;
    // What was under way when the connection broke may have been on it still, or be through already.
    if (broken && world_.random.chance(0.5)) return;
    Answer with = flight->apply({client_, copy});
    if (broken || copy == Origin::Copy::repeated || world_.random.chance(weather_.lose_reply)) return;
    const TimePoint back = arrival(flight->route, last_reply_);
    answer(flight, std::move(with), back - world_.now());
}

void Link::acquire(const store::AcquireRequest& request, store::Call call,
                   store::Completion<store::AcquireAnswer> done) {
    if (process_->alive()) witness_.sends(client_, request);
    send(call, std::make_shared<Flight<store::AcquireAnswer>>(
                   std::move(done), [this, request](Origin from) { return server_.acquire(request, from); },
                   store::AcquireAnswer(silence()), store::AcquireAnswer(refusal())));
}

std::vector<store::RenewAnswer> Link::renew_all(const std::vector<store::RenewItem>& items) {
    std::vector<store::RenewAnswer> answers;
    for (const store::RenewItem& item : items) {
        const auto* id = std::get_if<GrantId>(&item.id);
        if (id != nullptr && world_.random.chance(weather_.only_held) &&
            server_.holds(item.subject->key.bytes(), *id)) {
            answers.push_back(
                {.renewal = store::Renewal::held, .turn = false, .holder_left = {}, .detail = {}});
        } else {
            answers.push_back(server_.renew(item));
        }
    }
    return answers;
}

void Link::renew(std::vector<store::RenewItem> items, store::Call call,
                 store::Completion<std::vector<store::RenewAnswer>> done) {
    if (process_->alive())
        for (const auto& item : items) witness_.sends(client_, item);
    const std::size_t count = items.size();
    const auto shared = std::make_shared<std::vector<store::RenewItem>>(std::move(items));
    send(call, std::make_shared<Flight<std::vector<store::RenewAnswer>>>(
                   std::move(done), [this, shared](Origin) { return renew_all(*shared); }, unknown(count),
                   unknown(count)));
}

void Link::release(const store::ReleaseRequest& request, store::Call call,
                   store::Completion<Result<store::Released>> done) {
    if (process_->alive()) witness_.sends(client_, request);
    send(call, std::make_shared<Flight<Result<store::Released>>>(
                   std::move(done),
                   [this, request](Origin) { return Result<store::Released>(server_.release(request)); },
                   Result<store::Released>(silence()), Result<store::Released>(refusal())));
}

void Link::cut(nanoseconds down_for) {
    if (!process_->alive()) return;
    world_.log("client ", client_, ": connection cut");
    ++connection_;
    last_request_ = last_reply_ = {};
    down_until_ = std::max(down_until_, world_.now() + down_for);
    for (const auto& weak : std::exchange(on_usual_, {}))
        if (const auto waiting = weak.lock()) waiting->no_answer();
    server_.unsubscribe_all(client_);
    tell_watches();
    world_.at(down_until_, [self = shared_from_this(), now = connection_] {
        if (now != self->connection_) return;
        for (const auto& [number, watching] : self->watches_) self->subscribe(number);
        self->tell_watches();
    });
}

void Link::stall(nanoseconds length) {
    world_.log("client ", client_, ": connection stalls");
    stalled_until_ = std::max(stalled_until_, world_.now() + length);
}

void Link::watch(const std::string& key, const TicketId& ticket, std::uint64_t number, Changed changed) {
    if (!process_->alive()) return;
    watches_[number] = {key, ticket, std::move(changed)};
    if (world_.now() >= down_until_) subscribe(number);
}

void Link::unwatch(std::uint64_t number) {
    const auto found = watches_.find(number);
    if (found == watches_.end()) return;
    world_.at(arrival(store::Route::usual, last_request_),
              [self = shared_from_this(), ticket = found->second.ticket] {
                  self->server_.unsubscribe(self->client_, ticket);
              });
    watches_.erase(found);
}

void Link::subscribe(std::uint64_t number) {
    const TimePoint there = arrival(store::Route::usual, last_request_);
    world_.at(there, [self = shared_from_this(), number, now = connection_] {
        const auto found = self->watches_.find(number);
        if (found == self->watches_.end() || now != self->connection_ || !self->server_.up()) return;
        self->server_.subscribe(self->client_, found->second.key, found->second.ticket, [self, number] {
            if (self->world_.random.chance(self->weather_.lose_push)) return;
            self->world_.at(self->arrival(store::Route::usual, self->last_reply_), [self, number] {
                self->process_->run(Process::Thread::loop, [self, number] { self->tell(number); });
            });
        });
    });
}

void Link::tell(std::uint64_t number) {
    const auto found = watches_.find(number);
    if (found == watches_.end()) return;
    const Changed changed = found->second.changed;  // the watch may end meanwhile
    changed(store::Change::perhaps_mine);
}

void Link::tell_watches() {
    process_->run(Process::Thread::loop, [self = shared_from_this()] {
        std::vector<std::uint64_t> all;
        for (const auto& [number, watching] : self->watches_) all.push_back(number);
        for (const std::uint64_t number : all) self->tell(number);
    });
}

std::unique_ptr<store::Store> make_store(std::shared_ptr<Link> link,
                                         const store::Capabilities& capabilities) {
    return std::make_unique<SimStore>(std::move(link), capabilities);
}

}  // namespace dlock::sim
