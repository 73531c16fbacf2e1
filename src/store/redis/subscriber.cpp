// SPDX-License-Identifier: Apache-2.0
#include "store/redis/subscriber.hpp"

#include <algorithm>

#include "store/redis/names.hpp"

namespace dlock::store::redis {
namespace {

using namespace std::chrono_literals;

/// The subscription outlives its last waiter a little, so that a client that waits again and again need not
/// ask anew.
constexpr auto linger = 1s;
constexpr auto retry_after = 250ms;
constexpr auto retry_refused_after = 5s;
/// A wake-up may come between the answer "queued" and the watch.
constexpr std::size_t remembered = 64;

bool is_subscription(const redisReply& reply) {
    return is_array(reply) && reply.elements == 3 && text(at(reply, 0)) == "subscribe";
}

}  // namespace

class Subscriber::Entry : public Watch {
public:
    Entry(std::weak_ptr<Subscriber> subscriber, const TicketId& ticket, std::shared_ptr<Changed> changed)
        : subscriber_(std::move(subscriber)), ticket_(ticket), changed_(std::move(changed)) {}
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    ~Entry() override {
        if (const auto subscriber = subscriber_.lock()) subscriber->remove(ticket_, *this);
    }
    [[nodiscard]] const std::shared_ptr<Changed>& changed() const { return changed_; }

private:
    std::weak_ptr<Subscriber> subscriber_;
    TicketId ticket_;
    std::shared_ptr<Changed> changed_;
};

std::shared_ptr<Subscriber> Subscriber::make(Loop& loop, const Links& links, const std::string& instance,
                                             milliseconds call_timeout) {
    std::shared_ptr<Subscriber> made(new Subscriber(loop, links, instance, call_timeout));
    const auto task = [weak = made->weak_from_this()](void (Subscriber::*member)()) {
        return [weak, member] {
            if (const auto self = weak.lock()) (self.get()->*member)();
        };
    };
    made->retry_timer_ = loop.timer(task(&Subscriber::retry));
    made->linger_timer_ = loop.timer(task(&Subscriber::unsubscribe));
    return made;
}

std::unique_ptr<Watch> Subscriber::watch(const TicketId& ticket, Changed changed) {
    auto shared = std::make_shared<Changed>(std::move(changed));
    auto entry = std::make_unique<Entry>(weak_from_this(), ticket, shared);
    bool ask = false;
    {
        const Lock lock(mutex_);
        watches_.emplace(ticket, shared);
        ask = state_ == State::off;
        if (ask) state_ = State::asking;
        const auto heard = std::find(unheard_.begin(), unheard_.end(), ticket);
        if (heard != unheard_.end()) {
            unheard_.erase(heard);
            loop_.post([shared] { (*shared)(Change::perhaps_mine); });
        }
    }
    if (ask) subscribe();
    return entry;
}

void Subscriber::remove(const TicketId& ticket, const Entry& entry) {
    const Lock lock(mutex_);
    const auto [first, last] = watches_.equal_range(ticket);
    const auto found =
        std::find_if(first, last, [&](const auto& each) { return each.second == entry.changed(); });
    if (found != last) watches_.erase(found);
    if (watches_.empty()) linger_timer_->set(loop_.now() + linger);
}

void Subscriber::subscribe() {
    const auto weak = weak_from_this();
    std::shared_ptr<Connection> connection;
    {
        const Lock lock(mutex_);
        if (closed_) return;
        if (connection_ == nullptr) {
            connection_ = links_.make({.message =
                                           [weak](const redisReply& reply) {
                                               if (const auto self = weak.lock()) self->message(reply);
                                           },
                                       .lost =
                                           [weak] {
                                               if (const auto self = weak.lock()) self->lost();
                                           }});
        }
        connection = connection_;
    }
    Request request;
    request.wire = Command({"SUBSCRIBE", channel_}).take();
    request.deadline = loop_.now() + call_timeout_;
    request.shape = is_subscription;
    request.done = [weak](const Result<ReplyPtr>& answer) {
        if (const auto self = weak.lock()) self->subscribed(answer);
    };
    connection->call(std::move(request));
}

void Subscriber::subscribed(const Result<ReplyPtr>& answer) {
    {
        const Lock lock(mutex_);
        if (state_ != State::asking) return;
        if (answer) {
            state_ = State::on;
        } else {
            const bool refused = answer.error().fault == Fault::fatal;
            retry_timer_->set(loop_.now() + (refused ? retry_refused_after : milliseconds(retry_after)));
        }
    }
    if (answer) wake_all();  // whatever was published before was not heard
}

void Subscriber::message(const redisReply& reply) {
    if (reply.elements != 3) return;
    const auto ticket = id_from_hex<TicketId>(text(at(reply, 2)));
    if (!ticket) return;
    std::vector<std::shared_ptr<Changed>> woken;
    {
        const Lock lock(mutex_);
        const auto [first, last] = watches_.equal_range(*ticket);
        for (auto each = first; each != last; ++each) woken.push_back(each->second);
        if (woken.empty()) {
            unheard_.push_back(*ticket);
            if (unheard_.size() > remembered) unheard_.pop_front();
        }
    }
    for (const auto& changed : woken) (*changed)(Change::perhaps_mine);
}

void Subscriber::lost() {
    {
        const Lock lock(mutex_);
        if (state_ != State::on) return;  // an unanswered SUBSCRIBE is told by its completion
        state_ = State::asking;
    }
    wake_all();
    subscribe();
}

void Subscriber::retry() {
    {
        const Lock lock(mutex_);
        if (state_ != State::asking) return;
    }
    subscribe();
}

/// The connection goes with its subscription; a client that waits rarely has none.
void Subscriber::unsubscribe() {
    std::shared_ptr<Connection> connection;
    {
        const Lock lock(mutex_);
        if (!watches_.empty()) return;
        state_ = State::off;
        unheard_.clear();
        connection.swap(connection_);
    }
    if (connection != nullptr) connection->close();
}

void Subscriber::wake_all() {
    std::vector<std::shared_ptr<Changed>> all;
    {
        const Lock lock(mutex_);
        for (const auto& watch : watches_) all.push_back(watch.second);
    }
    for (const auto& changed : all) (*changed)(Change::perhaps_mine);
}

void Subscriber::close() {
    std::shared_ptr<Connection> connection;
    {
        const Lock lock(mutex_);
        closed_ = true;
        connection.swap(connection_);
    }
    if (connection != nullptr) connection->close();
}

}  // namespace dlock::store::redis
