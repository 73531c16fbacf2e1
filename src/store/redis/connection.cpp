// SPDX-License-Identifier: Apache-2.0
#include "store/redis/connection.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/ids.hpp"

namespace dlock::store::redis {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t eager = 4;    ///< measured: 2 to 8 are alike, 1 halves two callers, 16 delays many
constexpr std::size_t bunch = 8;    ///< so many unsent are worth a system call of their own
constexpr std::size_t plenty = 64;  ///< unanswered: the server has enough to do, or does not answer at all
constexpr std::size_t piece = 64 * 1024;  ///< bytes handed to the stream at once
constexpr std::size_t read_size = 16 * 1024;
/// How long a reader waits inside recv before it looks whether its own wait is over.
constexpr auto look_around = 10ms;
constexpr auto first_backoff = 10ms;
constexpr auto longest_backoff = 500ms;

/// Grows to the longest, half of it random, so that the clients of a server that came back do not come at
/// once.
std::chrono::nanoseconds backoff(unsigned failures) {
    const auto full =
        std::min<std::chrono::nanoseconds>(first_backoff * (1U << std::min(failures, 6U)), longest_backoff);
    std::uint8_t random = 0;
    core::random_bytes(&random, sizeof random);
    return full / 2 + full / 2 * random / 255;
}

/// Whose completions run on this thread; what they ask for is sent together afterwards.
thread_local const Connection* running = nullptr;

class Running {
public:
    explicit Running(const Connection* connection) noexcept : before_(std::exchange(running, connection)) {}
    ~Running() { running = before_; }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

private:
    const Connection* before_;
};

}  // namespace

std::shared_ptr<Connection> Connection::make(Loop& loop, std::shared_ptr<const Server> server,
                                             std::chrono::milliseconds call_timeout, Push push,
                                             Readers readers) {
    if (server->tls != nullptr || server->readers == Readers::loop || push.message) readers = Readers::loop;
    std::shared_ptr<Connection> made(
        new Connection(loop, std::move(server), call_timeout, std::move(push), readers));
    const auto task = [weak = made->weak_from_this()](void (Connection::*member)()) {
        return [weak, member] {
            if (const auto self = weak.lock()) (self.get()->*member)();
        };
    };
    made->tick_timer_ = loop.timer(task(&Connection::tick));
    made->dial_timer_ = loop.timer(task(&Connection::dial));
    return made;
}

Connection::Connection(Loop& loop, std::shared_ptr<const Server> server,
                       std::chrono::milliseconds call_timeout, Push push, Readers readers)
    : loop_(loop),
      server_(std::move(server)),
      call_timeout_(call_timeout),
      push_(std::move(push)),
      readers_(readers) {}

Connection::~Connection() = default;

// ---------------------------------------------------------------------------------------------------
// Callers

void Connection::call(Request request) {
    std::vector<Request> late;
    {
        Lock lock(mutex_);
        if (closed_) return;
        attach(request);
        watch_deadline(request.deadline);
        unsent_.push_back(std::move(request));
        if (link_ == nullptr) {
            want_link();
        } else {
            if (link_->reading == Reading::nobody) lead(*link_, unsent_.back().caller);
            if (can_send() && worth_sending() && running != this) late = flush(lock);
        }
    }
    refuse(std::move(late));
}

void Connection::attach(Request& request) {
    if (readers_ == Readers::loop || loop_.here()) return;
    auto caller = BlockedCaller::current();
    if (caller != nullptr && caller->attach(shared_from_this())) request.caller = std::move(caller);
}

bool Connection::can_send() const { return !link_->sending && !link_->blocked && !link_->leaving; }

bool Connection::worth_sending() const {
    const std::size_t unanswered = link_->sent.size();
    return unanswered < eager || (unanswered < plenty && unsent_.size() >= bunch);
}

bool Connection::idle() const {
    const std::lock_guard lock(mutex_);
    return unsent_.empty() && (link_ == nullptr || link_->sent.empty());
}

bool Connection::closed() const {
    const std::lock_guard lock(mutex_);
    return closed_;
}

void Connection::retire() {
    const std::lock_guard lock(mutex_);
    retiring_ = true;
    if (!unsent_.empty() || (link_ != nullptr && !link_->sent.empty())) return;
    loop_.post([self = shared_from_this()] { self->close(); });
}

/// Requests that are not sent get their answer a little before their deadline, so that "certainly not sent"
/// is heard before the caller gives up by itself and has to count it as unknown.
void Connection::watch_deadline(TimePoint deadline) {
    const TimePoint due = deadline - std::min<std::chrono::nanoseconds>(call_timeout_ / 20, 20ms);
    if (due >= tick_at_) return;
    tick_at_ = due;
    tick_timer_->set(due);
}

void Connection::want_link() {
    if (dialing_) return;
    dialing_ = true;
    loop_.post([weak = weak_from_this()] {
        if (const auto self = weak.lock()) self->dial();
    });
}

/// Sends what is unsent until the stream has enough to answer. Gives back what it came too late for. Gives up
/// the lock while it sends; what a server that cannot serve it sends back meanwhile is not for this stream.
std::vector<Request> Connection::flush(Lock& lock) {
    std::vector<Request> late;
    const std::shared_ptr<Link> link = link_;
    link->sending = true;
    do {
        fill(*link, late);
    } while (send_out(link, lock) && !link->leaving && !unsent_.empty() && link->sent.size() < eager);
    link->sending = false;
    if (link == link_) arm(*link);
    return late;
}

void Connection::fill(Link& link, std::vector<Request>& late) {
    const TimePoint now = loop_.now();
    while (!unsent_.empty() && link.out.size() < piece) {
        Request& next = unsent_.front();
        if (next.deadline <= now) {
            late.push_back(std::move(next));
        } else {
            link.out += next.wire;
            link.taken += next.wire.size();
            next.end = link.taken;
            link.sent.push_back(std::move(next));
        }
        unsent_.pop_front();
    }
}

/// False when the link is gone, broken or blocked.
bool Connection::send_out(const std::shared_ptr<Link>& link, Lock& lock) {
    while (link->out_done < link->out.size()) {
        const std::size_t left = link->out.size() - link->out_done;
        lock.unlock();
        const net::Transfer sent = link->stream->write(link->out.data() + link->out_done, left);
        lock.lock();
        if (link != link_) return false;
        if (sent.io == net::Io::done) {
            link->out_done += sent.bytes;
            link->accepted += sent.bytes;
            continue;
        }
        const bool full = sent.io == net::Io::want_write || sent.io == net::Io::want_read;
        (full ? link->blocked : link->leaving) = true;
        if (full) return false;
        loop_.post([weak = weak_from_this(), link, why = "sending failed: " + sent.error] {
            if (const auto self = weak.lock()) self->end(link, why);
        });
        return false;
    }
    link->out.clear();
    link->out_done = 0;
    return true;
}

void Connection::refuse(std::vector<Request> late) {
    if (late.empty()) return;
    std::vector<Answered> answered;
    for (Request& request : late) answered.push_back({std::move(request), unavailable("not sent in time")});
    if (!loop_.here()) leave_to_loop(answered);
    complete(answered);
}

/// Before this thread waits for replies. For a `caller`: only if something of its own would not go out
/// otherwise, since what others ask for is better gathered.
void Connection::send_rest(const BlockedCaller* caller) {
    const auto counts = [caller](const Request& r) { return caller == nullptr || r.caller.get() == caller; };
    std::vector<Request> late;
    {
        Lock lock(mutex_);
        if (link_ != nullptr && can_send() && std::any_of(unsent_.begin(), unsent_.end(), counts))
            late = flush(lock);
    }
    refuse(std::move(late));
}

/// What completions ask for, this thread does not wait for.
void Connection::complete(std::vector<Answered>& answered) {
    const BlockedCaller::Scope nobody(nullptr);
    for (Answered& each : answered) each.request.done(std::move(each.reply));
}

// ---------------------------------------------------------------------------------------------------
// The link comes and goes

void Connection::dial() {
    std::size_t first = 0;
    {
        const std::lock_guard lock(mutex_);
        if (closed_ || link_ != nullptr || !dialing_) return;
        first = preferred_;
    }
    if (loop_.now() < not_before_) return dial_timer_->set(not_before_);
    if (dialer_ == nullptr) dialer_ = std::make_unique<Dialer>(loop_, server_, call_timeout_);
    dialer_->start(first, [this](Result<Dialed> result) { dialed(std::move(result)); });
}

std::shared_ptr<Connection::Link> Connection::make_link(Dialed dialed) {
    auto link = std::make_shared<Link>();
    link->stream = std::move(dialed.stream);
    link->candidate = dialed.candidate;
    link->buffer.resize(read_size);
    link->readiness = net::Readiness::make(link->stream->fd());
    if (link->readiness == nullptr) return nullptr;
    if (readers_ == Readers::callers) link->stream->allow_waiting(look_around);
    watch_ = loop_.watch(link->readiness->fd(), Loop::Interest::read, [weak = weak_from_this()] {
        if (const auto self = weak.lock()) self->ready();
    });
    return link;
}

void Connection::dialed(Result<Dialed> result) {
    std::vector<Request> failed;
    const std::shared_ptr<Link> link = result ? make_link(*result) : nullptr;
    if (result && link == nullptr) result = unavailable("no descriptor is left for an epoll");
    {
        Lock lock(mutex_);
        dialing_ = false;
        if (link != nullptr) {
            preferred_ = link->candidate;
            link_ = link;
            hand_on(*link);
            failed = flush(lock);
        } else {
            not_before_ = loop_.now() + backoff(failures_++);
            failed.assign(std::make_move_iterator(unsent_.begin()), std::make_move_iterator(unsent_.end()));
            unsent_.clear();
        }
    }
    for (Request& request : failed) request.done(result ? unavailable("not sent in time") : result.error());
    close_if_over();
}

/// The stream is over. What the server may have got is unknown; what it cannot have got whole goes out again.
void Connection::drop(const std::string& why, errc code) {
    std::vector<Request> lost;
    std::string from;
    {
        const Lock lock(mutex_);
        if (link_ == nullptr) return;
        const std::shared_ptr<Link> link = std::move(link_);
        link_ = nullptr;
        from = where(*link);
        const std::uint64_t perhaps = link->sending ? link->taken : link->accepted;
        std::vector<Request> again;
        for (Request& request : link->sent) {
            request.as_text = false;
            (request.end <= perhaps ? lost : again).push_back(std::move(request));
        }
        again_first(std::move(again));
        watch_.reset();
        link->stream->shut_down();
        if (!link->proven) not_before_ = loop_.now() + backoff(failures_++);
        if (!unsent_.empty()) want_link();
    }
    if (push_.lost) push_.lost();
    for (Request& request : lost) request.done(Error(code, from + ": " + why, Fault::indeterminate));
    close_if_over();
}

void Connection::close_if_over() {
    {
        const Lock lock(mutex_);
        if (!retiring_ || !unsent_.empty() || (link_ != nullptr && !link_->sent.empty())) return;
    }
    close();
}

void Connection::close() {
    std::deque<Request> unsent;  // what their completions hold dies after the lock is given back
    std::shared_ptr<Link> link;
    const Lock lock(mutex_);
    closed_ = true;
    dialing_ = false;
    unsent.swap(unsent_);
    tick_timer_->cancel();
    dial_timer_->cancel();
    if (dialer_ != nullptr) dialer_->stop();
    watch_.reset();
    link.swap(link_);
    if (link != nullptr) link->stream->shut_down();  // whoever waits for bytes there
}

// ---------------------------------------------------------------------------------------------------
// The reader

/// Gives the right to the caller, if it still waits. False when it does not.
bool Connection::lead(Link& link, const std::shared_ptr<BlockedCaller>& caller) {
    if (caller == nullptr || !caller->offer()) return false;
    link.reading = Reading::caller;
    link.leader = caller;
    return true;
}

/// The right goes to the first caller who waits for an answer here, else back to the loop.
void Connection::hand_on(Link& link) {
    link.reading = Reading::nobody;
    link.leader.reset();
    const auto takes = [&link](const Request& request) { return lead(link, request.caller); };
    if (readers_ == Readers::callers && std::none_of(link.sent.begin(), link.sent.end(), takes))
        static_cast<void>(std::any_of(unsent_.begin(), unsent_.end(), takes));
    arm(link);
}

/// What the loop wakes for. A reader hears of the end of the stream by itself; the loop, armed for that while
/// nobody reads, is left so, since taking it back and setting it again costs two system calls a round trip.
void Connection::arm(Link& link) const {
    using Event = net::Readiness::Event;
    std::uint32_t events = link.blocked ? Event::writable : Event::none;
    if (link.reading != Reading::nobody)
        events |= link.readiness->armed() & Event::hang_up;
    else if (readers_ == Readers::loop || !link.sent.empty())
        events |= Event::hang_up | Event::readable;
    else
        events |= Event::hang_up;
    link.readiness->arm(events);
}

bool Connection::owes(const BlockedCaller& caller) const {
    const auto his = [&caller](const Request& request) { return request.caller.get() == &caller; };
    return std::any_of(link_->sent.begin(), link_->sent.end(), his) ||
           std::any_of(unsent_.begin(), unsent_.end(), his);
}

/// The link to read; null when the right has gone to somebody else, perhaps just here.
std::shared_ptr<Connection::Link> Connection::still_reads(const BlockedCaller& caller) {
    const Lock lock(mutex_);
    if (link_ == nullptr || link_->leader.get() != &caller) return nullptr;
    if (!caller.over() && owes(caller)) return link_;
    hand_on(*link_);
    return nullptr;
}

void Connection::read_for(const BlockedCaller& caller) {
    send_rest(&caller);
    while (const auto link = still_reads(caller)) read(link);
}

void Connection::ready() {
    const std::shared_ptr<Link> link = link_;
    if (link == nullptr) return;
    bool mine = false;
    {
        const Lock lock(mutex_);
        link->readiness->take();
        mine = link->reading == Reading::nobody;
        if (mine) link->reading = Reading::loop;
    }
    resume();
    if (mine && link == link_) read(link);
    const Lock lock(mutex_);
    if (link != link_) return;
    if (mine)
        hand_on(*link);
    else
        arm(*link);
}

/// After a full buffer: goes on sending, unless what stands there has become too old to be sent.
void Connection::resume() {
    bool stale = false;
    std::vector<Request> late;
    {
        Lock lock(mutex_);
        Link& link = *link_;
        if (!link.blocked || link.sending) return;
        const TimePoint now = loop_.now();
        stale = std::any_of(link.sent.begin(), link.sent.end(), [&](const Request& request) {
            return request.end > link.accepted && request.deadline <= now;
        });
        if (!stale) {
            link.blocked = false;
            late = flush(lock);
        }
    }
    refuse(std::move(late));
    if (stale) drop("the server takes no more bytes");
}

/// Once; a caller waits a little for something to come.
void Connection::read(const std::shared_ptr<Link>& link) {
    std::vector<ReplyPtr> replies;
    std::vector<char>& buffer = link->buffer;
    const bool waits = !loop_.here();
    bool broken = false;
    net::Transfer got;
    do {
        got = waits ? link->stream->wait_read(buffer.data(), buffer.size())
                    : link->stream->read(buffer.data(), buffer.size());
        if (got.io != net::Io::done) break;
        broken = !link->replies.feed({buffer.data(), got.bytes});
        while (!broken) {
            ReplyPtr reply;
            const ReplyReader::Next next = link->replies.next(reply);
            if (next == ReplyReader::Next::more) break;
            broken = next == ReplyReader::Next::broken;
            if (!broken) replies.push_back(std::move(reply));
        }
    } while (!broken && link->stream->buffered());
    if (broken || !replies.empty()) process(link, std::move(replies), broken);
    if (got.io == net::Io::closed) end(link, "the server closed the connection");
    if (got.io == net::Io::failed || got.io == net::Io::refused) end(link, got.error);
}

/// The stream is of no more use. Streams are taken away on the loop's thread; nobody reads this one until
/// then.
void Connection::end(const std::shared_ptr<Link>& link, const std::string& why, errc code) {
    if (loop_.here()) {
        if (link == link_) drop(why, code);
        return;
    }
    {
        const Lock lock(mutex_);
        link->leaving = true;
        link->reading = Reading::over;
        link->leader.reset();
    }
    loop_.post([weak = weak_from_this(), link, why, code] {
        if (const auto self = weak.lock()) self->end(link, why, code);
    });
}

void Connection::process(const std::shared_ptr<Link>& link, std::vector<ReplyPtr> replies, bool broken) {
    std::vector<Answered> answered;
    std::vector<ReplyPtr> pushed;
    bool leave = false;
    std::string why;
    {
        Lock lock(mutex_);
        if (link != link_) return;  // dropped meanwhile, and what these answer with it
        std::vector<Request> again;
        for (ReplyPtr& reply : replies) {
            if (push_.message && is_array(*reply) && reply->elements > 0 &&
                text(at(*reply, 0)) == "message") {
                pushed.push_back(std::move(reply));
            } else if (link->sent.empty()) {
                broken = true;
                break;
            } else {
                broken = !answer(*link, std::move(reply), answered, again);
                if (broken) break;
            }
        }
        again_first(std::move(again));
        if (broken) link->leaving = true;
        leave = link->leaving && link->sent.empty();
        why = away_;
        if (!unsent_.empty() && can_send()) {
            std::vector<Request> late = flush(lock);
            for (Request& request : late)
                answered.push_back({std::move(request), unavailable("not sent in time")});
        }
    }
    for (const ReplyPtr& message : pushed) push_.message(*message);
    run(std::move(answered));
    if (broken) return end(link, "the answer is not one of the Redis protocol", errc::store_error);
    if (leave) end(link, why);
}

/// Takes the first request's reply. It either has its answer, or goes out again.
bool Connection::answer(Link& link, ReplyPtr reply, std::vector<Answered>& answered,
                        std::vector<Request>& again) {
    Request request = std::move(link.sent.front());
    link.sent.pop_front();
    if (request.as_text && --link.texts[request.script] == 0) link.texts.erase(request.script);
    request.as_text = false;
    if (!is_error(*reply)) {
        link.proven = true;
        failures_ = 0;
        away_.clear();
        const bool right = request.shape(*reply);
        Result<ReplyPtr> result(std::move(reply));
        if (!right)
            result = Error(errc::store_error, where(link) + ": unexpected answer", Fault::indeterminate);
        answered.push_back({std::move(request), std::move(result)});
        return right;
    }
    const Trouble trouble = trouble_of(text(*reply));
    if (trouble == Trouble::no_script && request.script != nullptr) {
        send_again(link, std::move(request), again);
        return true;
    }
    Error error = error_of(text(*reply));
    error.detail = where(link) + ": " + error.detail;
    if (trouble == Trouble::not_here) {
        link.leaving = true;
        away_ = error.detail;
        preferred_ = (link.candidate + 1) % server_->candidates.size();
        if (request.strays++ < server_->candidates.size()) {
            again.push_back(std::move(request));
            return true;
        }
    }
    answered.push_back({std::move(request), std::move(error)});
    return true;
}

/// The text of a script goes once; what comes behind it on this connection finds the script there.
void Connection::send_again(Link& link, Request request, std::vector<Request>& again) {
    if (request.unknown || !link.texts.contains(request.script)) {
        request.wire = with_text(request.wire, *request.script);
        request.as_text = true;
        ++link.texts[request.script];
    }
    request.unknown = true;
    again.push_back(std::move(request));
}

void Connection::again_first(std::vector<Request> again) {
    unsent_.insert(unsent_.begin(), std::make_move_iterator(again.begin()),
                   std::make_move_iterator(again.end()));
}

/// What no blocked caller waits for may end in a user's completion, which is none of another caller's
/// business.
void Connection::leave_to_loop(std::vector<Answered>& answered) {
    const auto first = std::stable_partition(answered.begin(), answered.end(), [](const Answered& each) {
        return each.request.caller != nullptr;
    });
    if (first == answered.end()) return;
    const auto rest = std::make_shared<std::vector<Answered>>(std::make_move_iterator(first),
                                                              std::make_move_iterator(answered.end()));
    answered.erase(first, answered.end());
    loop_.post([weak = weak_from_this(), rest] {
        const auto self = weak.lock();
        if (self != nullptr && !self->closed()) self->run(std::move(*rest));
    });
}

void Connection::run(std::vector<Answered> answered) {
    if (!loop_.here()) leave_to_loop(answered);
    {
        const Running here(this);
        complete(answered);
    }
    send_rest();
    close_if_over();
}

/// Answers for what is not sent in time, and an end for a stream whose server no longer answers.
void Connection::tick() {
    std::vector<Request> late;
    bool silent = false;
    std::string why;
    {
        const std::lock_guard lock(mutex_);
        tick_at_ = TimePoint::max();
        const TimePoint soon = loop_.now() + std::min<std::chrono::nanoseconds>(call_timeout_ / 20, 20ms);
        std::deque<Request> rest;
        for (Request& request : unsent_) {
            if (request.deadline <= soon) {
                late.push_back(std::move(request));
            } else {
                watch_deadline(request.deadline);
                rest.push_back(std::move(request));
            }
        }
        unsent_ = std::move(rest);
        if (link_ != nullptr && !link_->sent.empty()) {
            const TimePoint end = link_->sent.front().deadline + call_timeout_;
            silent = end <= soon;
            if (!silent) watch_deadline(end);
        }
        why = !away_.empty() ? away_ : link_ != nullptr ? "the server does not answer" : "still connecting";
    }
    for (Request& request : late) request.done(unavailable("not sent in time: " + why));
    if (silent) drop("no answer for long");
    close_if_over();
}

}  // namespace dlock::store::redis
