// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "store/redis/connection.hpp"
#include "store/store.hpp"

namespace dlock::store::redis {

/// Which of a client's connections a call goes over.
enum class Lane {
    main,  ///< acquire and release
    beat,  ///< renewals, which must not stand behind acquires
    side,  ///< people's questions, however long the answers
};

/// The connections of one client, each made when it is first needed. Any thread.
class Links {
public:
    Links(Server server, const StoreEnv& env);
    Links(const Links&) = delete;
    Links& operator=(const Links&) = delete;
    ~Links() = default;
    /// Ends all connections; completions still due are dropped. On the loop's thread, or when it runs no
    /// more.
    void close();

    [[nodiscard]] const Server& server() const noexcept { return *server_; }
    void call(Lane lane, Route route, Request request);
    [[nodiscard]] std::shared_ptr<Connection> make(Connection::Push push = {},
                                                   Readers readers = Readers::loop) const;

private:
    std::shared_ptr<Connection> pick(Lane lane, Route route);
    std::shared_ptr<Connection> fresh();

    Loop& loop_;
    const std::shared_ptr<const Server> server_;
    const milliseconds call_timeout_;

    std::mutex mutex_;
    std::shared_ptr<Connection> main_;
    std::shared_ptr<Connection> beat_;
    std::shared_ptr<Connection> side_;
    std::shared_ptr<Connection> fresh_;
    TimePoint fresh_since_{};  ///< when the present fresh connection was last known to owe no answer
    std::vector<std::shared_ptr<Connection>> retired_;  ///< former fresh ones that still owe answers
};

}  // namespace dlock::store::redis
