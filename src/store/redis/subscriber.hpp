// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "store/redis/links.hpp"

namespace dlock::store::redis {

/// Hears whom the releasers wake: one subscription to the client's own channel while somebody waits, on a
/// connection of its own. A message is the ticket whose turn may have come. Any thread.
class Subscriber : public std::enable_shared_from_this<Subscriber> {
public:
    using Changed = std::function<void(Change)>;

    static std::shared_ptr<Subscriber> make(Loop& loop, const Links& links, const std::string& instance,
                                            milliseconds call_timeout);
    /// The channel of a client.
    [[nodiscard]] static std::string channel(std::string_view instance) {
        return "dlock:wake:" + std::string(instance);
    }

    [[nodiscard]] std::unique_ptr<Watch> watch(const TicketId& ticket, Changed changed);
    /// On the loop's thread, or when it runs no more.
    void close();

private:
    enum class State { off, asking, on };
    class Entry;
    using Lock = std::unique_lock<std::mutex>;

    Subscriber(Loop& loop, const Links& links, const std::string& instance, milliseconds call_timeout)
        : loop_(loop), links_(links), channel_(channel(instance)), call_timeout_(call_timeout) {}
    void remove(const TicketId& ticket, const Entry& entry);
    void subscribe();
    void subscribed(const Result<ReplyPtr>& answer);
    void message(const redisReply& reply);
    void lost();
    void retry();
    void unsubscribe();
    void wake_all();

    Loop& loop_;
    const Links& links_;
    const std::string channel_;
    const milliseconds call_timeout_;
    std::unique_ptr<Loop::Timer> retry_timer_;
    std::unique_ptr<Loop::Timer> linger_timer_;

    std::mutex mutex_;
    State state_ = State::off;
    bool closed_ = false;
    std::shared_ptr<Connection> connection_;
    std::multimap<TicketId, std::shared_ptr<Changed>> watches_;
    std::deque<TicketId> unheard_;  ///< tickets woken lately that nobody watched
};

}  // namespace dlock::store::redis
