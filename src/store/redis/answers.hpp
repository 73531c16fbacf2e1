// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>

#include "store/redis/connection.hpp"
#include "store/store.hpp"

namespace dlock::store::redis {

/// From microseconds, rounded up: what is left of a lease is never shown as nothing.
inline milliseconds to_ms(long long us) {
    return std::chrono::ceil<milliseconds>(std::chrono::microseconds(us));
}
inline std::chrono::system_clock::time_point to_wall(long long us) {
    return std::chrono::system_clock::time_point(std::chrono::microseconds(us));
}

/// A fence from its digits.
std::optional<Fence> fence_of(std::string_view digits);

/// The kind of a record with this version field; nothing where it is none of ours.
std::optional<core::Kind> kind_of(std::string_view version);
/// Why a record of this version field is not for us; empty where it is.
std::string problem_of(std::string_view version);
/// The error for a script's refusal.
Error refusal(const Key& key, std::string_view version, core::Mode wanted);
/// The error with the name of the thing and the fix, where the value under a name of the key is of another
/// type.
Error in_record(const Error& error, const Key& key);

/// The JSON of owners, which mostly is that of the same one again. Any thread.
class OwnerText {
public:
    std::shared_ptr<const std::string> of(const std::shared_ptr<const Owner>& owner);

private:
    std::mutex mutex_;
    std::shared_ptr<const Owner> last_;
    std::shared_ptr<const std::string> text_;
};

Request script_request(Command& command, const Script& script, const Call& call,
                       bool (*shape)(const redisReply&), std::function<void(Result<ReplyPtr>)> done);

}  // namespace dlock::store::redis
