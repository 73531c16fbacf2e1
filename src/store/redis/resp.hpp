// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include <hiredis/hiredis.h>

#include "core/ids.hpp"
#include "dlock/error.hpp"

/// The bytes of the Redis protocol (RESP2): commands out, replies in. hiredis is the parser; it does no I/O
/// here.
namespace dlock::store::redis {

struct FreeReply {
    void operator()(redisReply* reply) const noexcept { freeReplyObject(reply); }
};
using ReplyPtr = std::unique_ptr<redisReply, FreeReply>;

inline bool is_error(const redisReply& reply) noexcept { return reply.type == REDIS_REPLY_ERROR; }
inline bool is_integer(const redisReply& reply) noexcept { return reply.type == REDIS_REPLY_INTEGER; }
inline bool is_string(const redisReply& reply) noexcept { return reply.type == REDIS_REPLY_STRING; }
inline bool is_array(const redisReply& reply) noexcept { return reply.type == REDIS_REPLY_ARRAY; }
inline std::string_view text(const redisReply& reply) noexcept {
    return reply.str == nullptr ? std::string_view() : std::string_view(reply.str, reply.len);
}
/// An element of an array; the caller has checked the size.
inline const redisReply& at(const redisReply& reply, std::size_t index) noexcept {
    return *reply.element[index];
}

class ReplyReader {
public:
    enum class Next { reply, more, broken };

    ReplyReader();
    /// False when more is buffered than any reply of ours can have.
    [[nodiscard]] bool feed(std::string_view bytes);
    /// After `broken` the reader is of no more use.
    [[nodiscard]] Next next(ReplyPtr& reply);
    /// True when it holds no part of a reply.
    [[nodiscard]] bool empty() const noexcept;

private:
    struct Free {
        void operator()(redisReader* reader) const noexcept { redisReaderFree(reader); }
    };
    std::unique_ptr<redisReader, Free> reader_;
};

/// A script with its SHA-1, by which it is called.
struct Script {
    std::string text;
    std::string sha;
    explicit Script(std::string source);
};

/// One command, part by part.
class Command {
public:
    explicit Command(std::size_t parts);
    Command(std::initializer_list<std::string_view> parts);
    /// EVALSHA; `keys` + `args` parts must follow.
    Command(const Script& script, std::size_t keys, std::size_t args);

    Command& add(std::string_view part);
    Command& add(std::int64_t number);
    /// As its 32 digits.
    template <class Tag>
    Command& add(const core::Id16<Tag>& id) {
        return add_hex(id.raw());
    }
    [[nodiscard]] std::string take() { return std::move(wire_); }

private:
    Command& add_hex(std::string_view bytes);

    std::string wire_;
};

/// The EVALSHA command `wire` with the script's text in place of its name.
std::string with_text(std::string_view wire, const Script& script);

/// What an error reply means for the connection.
enum class Trouble {
    none,       ///< an ordinary error of this command
    no_script,  ///< the server does not have the script (any more)
    not_here,   ///< this server cannot serve writes: find the primary again
};
Trouble trouble_of(std::string_view error) noexcept;

/// An error reply as an Error; certainly nothing was done.
Error error_of(std::string_view error);

/// Certainly not sent.
Error unavailable(std::string text);
/// Sent, and no answer.
Error unanswered(std::string text);

}  // namespace dlock::store::redis
