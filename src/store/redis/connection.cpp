// SPDX-License-Identifier: Apache-2.0
#include "store/redis/connection.hpp"

#include <algorithm>
#include <iterator>

#include "core/ids.hpp"

namespace dlock::store::redis {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t eager = 4;    ///< measured: 2 to 8 are alike, 1 halves two callers, 16 delays many
constexpr std::size_t bunch = 8;    ///< so many unsent are worth a system call of their own
constexpr std::size_t plenty = 64;  ///< unanswered: the server has enough to do, or does not answer at all
constexpr std::size_t piece = 64 * 1024;  ///< bytes handed to the stream at once
constexpr std::size_t read_size = 16 * 1024;
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

}  // namespace

std::shared_ptr<Connection> Connection::make(Loop& loop, std::shared_ptr<const Server> server,
                                             std::chrono::milliseconds call_timeout, Push push) {
    std::shared_ptr<Connection> made(new Connection(loop, std::move(server), call_timeout, std::move(push)));
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
                       std::chrono::milliseconds call_timeout, Push push)
    : loop_(loop), server_(std::move(server)), call_timeout_(call_timeout), push_(std::move(push)) {}

Connection::~Connection() = default;

// ---------------------------------------------------------------------------------------------------
// Callers

void Connection::call(Request request) {
    std::vector<Request> late;
    {
        Lock lock(mutex_);
        if (closed_) return;
        watch_deadline(request.deadline);
        unsent_.push_back(std::move(request));
        if (link_ == nullptr)
            want_link();
        else if (can_send() && worth_sending() && !(loop_.here() && running_))
            late = flush(lock);
    }
    refuse(std::move(late));
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
/// the lock while it sends.
std::vector<Request> Connection::flush(Lock& lock) {
    std::vector<Request> late;
    const std::shared_ptr<Link> link = link_;
    link->sending = true;
    do {
        fill(*link, late);
    } while (send_out(link, lock) && !unsent_.empty() && link->sent.size() < eager);
    link->sending = false;
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
        loop_.post([weak = weak_from_this(), link, full, why = sent.error] {
            const auto self = weak.lock();
            if (self == nullptr || self->link_ != link) return;
            if (!full) return self->drop("sending failed: " + why);
            const std::lock_guard again(self->mutex_);
            if (link->blocked) self->watch_->want(Loop::Interest::read_write);
        });
        return false;
    }
    link->out.clear();
    link->out_done = 0;
    return true;
}

void Connection::refuse(std::vector<Request> late) {
    for (Request& request : late) request.done(unavailable("not sent in time"));
}

// ---------------------------------------------------------------------------------------------------
// The link comes and goes

void Connection::dial() {
    {
        const std::lock_guard lock(mutex_);
        if (closed_ || link_ != nullptr || !dialing_) return;
    }
    if (loop_.now() < not_before_) return dial_timer_->set(not_before_);
    if (dialer_ == nullptr) dialer_ = std::make_unique<Dialer>(loop_, server_, call_timeout_);
    dialer_->start(preferred_, [this](Result<Dialed> result) { dialed(std::move(result)); });
}

void Connection::dialed(Result<Dialed> result) {
    std::vector<Request> failed;
    {
        Lock lock(mutex_);
        dialing_ = false;
        if (result) {
            preferred_ = result->candidate;
            link_ = std::make_shared<Link>();
            link_->stream = std::move(result->stream);
            link_->candidate = result->candidate;
            reader_ = std::make_unique<ReplyReader>();
            buffer_.resize(read_size);
            watch_ = loop_.watch(link_->stream->fd(), Loop::Interest::read, [weak = weak_from_this()] {
                if (const auto self = weak.lock()) self->ready();
            });
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
}

// ---------------------------------------------------------------------------------------------------
// The reader

void Connection::ready() {
    if (link_ == nullptr) return;
    resume();
    if (link_ != nullptr) read();
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
            if (link_ != nullptr && !link_->blocked) watch_->want(Loop::Interest::read);
        }
    }
    refuse(std::move(late));
    if (stale) drop("the server takes no more bytes");
}

void Connection::read() {
    std::vector<ReplyPtr> replies;
    bool broken = false;
    net::Transfer got;
    do {
        got = link_->stream->read(buffer_.data(), buffer_.size());
        if (got.io != net::Io::done) break;
        broken = !reader_->feed({buffer_.data(), got.bytes});
        while (!broken) {
            ReplyPtr reply;
            const ReplyReader::Next next = reader_->next(reply);
            if (next == ReplyReader::Next::more) break;
            broken = next == ReplyReader::Next::broken;
            if (!broken) replies.push_back(std::move(reply));
        }
    } while (!broken && link_->stream->buffered());
    process(std::move(replies), broken);
    if (got.io == net::Io::closed) drop("the server closed the connection");
    if (got.io == net::Io::failed || got.io == net::Io::refused) drop(got.error);
}

void Connection::process(std::vector<ReplyPtr> replies, bool broken) {
    std::vector<Answered> answered;
    std::vector<ReplyPtr> pushed;
    bool leave = false;
    {
        Lock lock(mutex_);
        const std::shared_ptr<Link> link = link_;
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
        if (!unsent_.empty() && can_send()) {
            std::vector<Request> late = flush(lock);
            for (Request& request : late)
                answered.push_back({std::move(request), unavailable("not sent in time")});
        }
    }
    for (const ReplyPtr& message : pushed) push_.message(*message);
    run(std::move(answered));
    if (broken) return drop("the answer is not one of the Redis protocol", errc::store_error);
    if (leave) drop(away_);
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

void Connection::run(std::vector<Answered> answered) {
    running_ = true;
    for (Answered& each : answered) each.request.done(std::move(each.reply));
    running_ = false;
    std::vector<Request> late;
    {
        Lock lock(mutex_);
        if (link_ != nullptr && can_send() && !unsent_.empty()) late = flush(lock);
    }
    refuse(std::move(late));
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
