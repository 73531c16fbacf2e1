// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dlock/result.hpp"
#include "net/readiness.hpp"
#include "store/blocked_caller.hpp"
#include "store/loop.hpp"
#include "store/redis/dialer.hpp"
#include "store/redis/resp.hpp"

namespace dlock::store::redis {

/// One command and what becomes of its one reply.
struct Request {
    std::string wire;
    TimePoint deadline{};  ///< never sent after it
    bool (*shape)(const redisReply&) =
        nullptr;  ///< false: the peer speaks nonsense, the connection is dropped
    std::function<void(Result<ReplyPtr>)> done;  ///< once; with a reply of that shape or an error
    const Script* script = nullptr;  ///< for EVALSHA: what to send where the server does not know it

    // The connection's own notes.
    bool as_text = false;                   ///< went out as EVAL
    bool unknown = false;                   ///< its script was not there once
    unsigned strays = 0;                    ///< how often a server that cannot serve it sent it back
    std::uint64_t end = 0;                  ///< bytes of its stream up to and with this command
    std::shared_ptr<BlockedCaller> caller;  ///< sleeps until this is answered, and may read for it; or null
};

/// One connection to the primary, made at its first request and made again when it is lost.
///
/// This file decides who reads the socket. There is one right to read: a blocked caller whose request is
/// unanswered takes it when nobody has it, waits inside recv, processes the replies of all, and gives it to
/// the next such caller when its own is there. Without one the loop has it, and only then wakes for replies.
/// With TLS, `io=thread` or pushed messages the loop always has it: a TLS session cannot be read by one
/// thread while another waits inside it.
///
/// Callers append and send by themselves on their own threads: whoever finds nobody sending sends everything
/// that is there. With `eager` requests unanswered the rest waits, for the reader or until it is a `bunch`,
/// and is sent as one piece. That merges the commands of concurrent callers.
///
/// Any thread, unless said otherwise. Completions of requests that a blocked caller waits for run on the
/// loop's thread or on that of a blocked caller, this one or another; all others on the loop's. Never under
/// the lock. Streams come, end and are made anew on the loop's thread only.
class Connection : public std::enable_shared_from_this<Connection>, public BlockedCaller::Source {
public:
    struct Push {
        std::function<void(const redisReply&)>
            message;                 ///< a reply that no request asked for; unset: none expected
        std::function<void()> lost;  ///< an established connection has ended
    };

    static std::shared_ptr<Connection> make(Loop& loop, std::shared_ptr<const Server> server,
                                            std::chrono::milliseconds call_timeout, Push push = {},
                                            Readers readers = Readers::loop);
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    virtual ~Connection();

    void call(Request request);
    /// Nothing unanswered and nothing unsent.
    [[nodiscard]] bool idle() const;
    [[nodiscard]] bool closed() const;
    /// Closes as soon as nothing is unanswered any more.
    void retire();
    /// Drops everything; completions still due are dropped too. On the loop's thread, or when it runs no
    /// more.
    void close();

    void read_for(const BlockedCaller& caller) override;

private:
    enum class Reading {
        nobody,  ///< the loop, as soon as there is something
        loop,    ///< just now
        caller,
        over,  ///< the stream has ended, and the loop is about to know
    };
    /// One established stream and what is on its way there. Owned also by a caller who is sending or reading,
    /// so that the descriptor cannot be closed and given to somebody else meanwhile.
    struct Link {
        std::shared_ptr<net::Stream> stream;
        std::unique_ptr<net::Readiness> readiness;  ///< what the loop wakes for; after the stream: dies first
        Reading reading = Reading::nobody;
        std::shared_ptr<BlockedCaller> leader;  ///< who has the right while `reading` is `caller`
        // Whoever has the right, without the lock:
        ReplyReader replies;
        std::vector<char> buffer;

        // Under the lock:
        std::size_t candidate = 0;
        std::deque<Request> sent;  ///< in the order of their replies
        std::string out;           ///< being sent; the requests in it are in `sent` already
        std::size_t out_done = 0;
        std::uint64_t taken = 0;                  ///< bytes ever put into `out`
        std::uint64_t accepted = 0;               ///< bytes the stream has accepted
        bool sending = false;                     ///< a thread is inside send
        bool blocked = false;                     ///< the socket's buffer is full; only the loop goes on
        bool leaving = false;                     ///< not the primary, or broken: nothing more is sent
        bool proven = false;                      ///< has served a request
        std::map<const Script*, unsigned> texts;  ///< EVALs that are unsent or unanswered
    };
    using Lock = std::unique_lock<std::mutex>;
    struct Answered {
        Request request;
        Result<ReplyPtr> reply;
    };

    Connection(Loop& loop, std::shared_ptr<const Server> server, std::chrono::milliseconds call_timeout,
               Push push, Readers readers);

    // Under the lock.
    void attach(Request& request);
    void want_link();
    std::vector<Request> flush(Lock& lock);
    void fill(Link& link, std::vector<Request>& late);
    bool send_out(const std::shared_ptr<Link>& link, Lock& lock);
    static bool lead(Link& link, const std::shared_ptr<BlockedCaller>& caller);
    void hand_on(Link& link);
    void arm(Link& link) const;
    [[nodiscard]] bool owes(const BlockedCaller& caller) const;
    void watch_deadline(TimePoint deadline);
    [[nodiscard]] bool can_send() const;
    [[nodiscard]] bool worth_sending() const;
    /// False when the reply makes no sense.
    bool answer(Link& link, ReplyPtr reply, std::vector<Answered>& answered, std::vector<Request>& again);
    static void send_again(Link& link, Request request, std::vector<Request>& again);
    void again_first(std::vector<Request> again);

    // Whoever has the right to read, without the lock.
    [[nodiscard]] std::shared_ptr<Link> still_reads(const BlockedCaller& caller);
    void read(const std::shared_ptr<Link>& link);
    void process(const std::shared_ptr<Link>& link, std::vector<ReplyPtr> replies, bool broken);
    void end(const std::shared_ptr<Link>& link, const std::string& why, errc code = errc::unknown_outcome);
    void run(std::vector<Answered> answered);
    void send_rest(const BlockedCaller* caller = nullptr);
    void leave_to_loop(std::vector<Answered>& answered);
    static void complete(std::vector<Answered>& answered);

    // Loop thread, without the lock.
    void dial();
    void dialed(Result<Dialed> result);
    std::shared_ptr<Link> make_link(Dialed dialed);
    void ready();
    void resume();
    void tick();
    void drop(const std::string& why, errc code = errc::unknown_outcome);
    void close_if_over();

    void refuse(std::vector<Request> late);
    [[nodiscard]] std::string where(const Link& link) const {
        return server_->candidates[link.candidate].text();
    }

    Loop& loop_;
    const std::shared_ptr<const Server> server_;
    const std::chrono::milliseconds call_timeout_;
    const Push push_;
    const Readers readers_;

    mutable std::mutex mutex_;
    std::deque<Request> unsent_;
    std::shared_ptr<Link> link_;  ///< null while there is none; changed on the loop's thread only
    bool dialing_ = false;
    bool retiring_ = false;
    bool closed_ = false;
    TimePoint tick_at_ = TimePoint::max();
    std::string away_;           ///< why the last server could not be used
    std::size_t preferred_ = 0;  ///< candidate to try first
    unsigned failures_ = 0;      ///< in a row

    // Loop thread only.
    std::unique_ptr<Dialer> dialer_;
    std::unique_ptr<Loop::FdWatch> watch_;
    TimePoint not_before_{};
    std::unique_ptr<Loop::Timer> tick_timer_;
    std::unique_ptr<Loop::Timer> dial_timer_;
};

}  // namespace dlock::store::redis
