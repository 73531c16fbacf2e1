// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/lookup.hpp"
#include "net/stream.hpp"
#include "store/loop.hpp"
#include "store/redis/resp.hpp"
#include "store/redis/server.hpp"

namespace dlock::store::redis {

struct Dialed {
    std::shared_ptr<net::Stream> stream;
    std::size_t candidate = 0;
};

/// Gets a stream to the primary: tries the candidates in turn, each with resolving, connecting, TLS and the
/// greeting (AUTH, SELECT, CLIENT SETNAME, and ROLE among several candidates) within one time limit.
/// Loop thread only.
class Dialer {
public:
    using Done = std::function<void(Result<Dialed>)>;

    /// `patience` bounds a whole round; each candidate gets its part of it.
    Dialer(Loop& loop, std::shared_ptr<const Server> server, std::chrono::milliseconds patience);
    ~Dialer();

    /// Begins with candidate `first`. `done` is called once, later; it may start the dialer again.
    void start(std::size_t first, Done done);
    /// Drops the round; `done` is not called.
    void stop();

private:
    enum class Phase { idle, resolving, connecting, greeting };
    enum class Expect { ok, any, role };

    [[nodiscard]] const Candidate& candidate() const { return server_->candidates[current_]; }
    void try_candidate();
    void resolved();
    void try_address();
    void ready();
    void connecting();
    void send_greeting();
    void write_greeting();
    void read_greeting();
    /// False when the candidate was given up.
    bool check_greeting(const redisReply& reply, Expect expect);
    void succeed();
    /// The present address is no good; the next one, then the next candidate.
    void give_up_address(const std::string& why, Fault fault);
    void give_up(Error why);
    void clear();

    Loop& loop_;
    const std::shared_ptr<const Server> server_;
    const std::chrono::milliseconds patience_;
    const std::unique_ptr<Loop::Timer> timer_;
    Done done_;
    Phase phase_ = Phase::idle;
    std::size_t current_ = 0;
    std::size_t tried_ = 0;
    std::optional<Error> error_;  ///< of the candidates so far

    std::unique_ptr<net::Lookup> lookup_;
    std::vector<net::Address> addresses_;
    std::size_t next_address_ = 0;
    std::shared_ptr<net::Stream> stream_;
    std::unique_ptr<Loop::FdWatch> watch_;
    std::string out_;
    std::vector<Expect> expected_;
    std::size_t answered_ = 0;
    std::unique_ptr<ReplyReader> reader_;
};

}  // namespace dlock::store::redis
