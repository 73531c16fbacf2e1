// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <hiredis/hiredis.h>

#include "support.hpp"

/// The bare store: a blocking socket, hiredis' formatter and reader, nothing else.
namespace bench {

using Words = std::vector<std::string>;

struct FreeReply {
    void operator()(redisReply* reply) const noexcept { freeReplyObject(reply); }
};
using Reply = std::unique_ptr<redisReply, FreeReply>;

class Wire {
public:
    explicit Wire(std::uint16_t port);
    Wire(const Wire&) = delete;
    Wire& operator=(const Wire&) = delete;
    ~Wire();

    void append(const Words& words);  ///< formats into the send buffer
    void flush();
    Reply read();           ///< the next reply; throws on an error reply or a closed socket
    Reply read_buffered();  ///< the next reply already received, or null
    Reply call(const Words& words) {
        append(words);
        flush();
        return read();
    }

private:
    void receive();

    int socket_ = -1;
    redisReader* reader_ = nullptr;
    std::string out_;
};

/// The two commands of one uncontended acquire and release, exactly as dlock sends them: recorded by MONITOR
/// while dlock does one pair. `acquire` and `release` give them for another key and a new grant.
class PairScript {
public:
    static PairScript record(std::uint16_t port);

    [[nodiscard]] Words acquire(const std::string& key, std::uint64_t grant) const {
        return fill(acquire_, key, grant);
    }
    [[nodiscard]] Words release(const std::string& key, std::uint64_t grant) const {
        return fill(release_, key, grant);
    }

private:
    [[nodiscard]] Words fill(const Words& words, const std::string& key, std::uint64_t grant) const;

    Words acquire_;
    Words release_;
    std::string grant_;  ///< the recorded grant's id, an argument of both
};

/// How often clients called the server so far: scripts, publishes and subscriptions, not what runs inside
/// scripts.
std::uint64_t client_calls(Wire& wire);
/// What a crowd that takes one lock from hand to hand costs the server, and how fast it is, in one slice.
struct HandOvers {
    double calls = 0;  ///< by clients, each
    double per_second = 0;
};
HandOvers hand_overs(Wire& wire, milliseconds slice, const std::function<std::uint64_t()>& grants);
/// How often scripts were called so far.
std::uint64_t script_calls(Wire& wire);

}  // namespace bench
