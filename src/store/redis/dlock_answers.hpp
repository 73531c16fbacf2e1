// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "store/redis/answers.hpp"

/// What the scripts of layout `dlock` answer, read for the seam.
namespace dlock::store::redis {

/// Where a grant's record has the form for many holders; empty for a mutex.
inline constexpr std::string_view holders_handle = "h";

/// The letter of a mode in keys with many holders.
constexpr std::string_view letter_of(core::Mode mode) noexcept {
    return mode == core::Mode::shared ? "s" : mode == core::Mode::permit ? "p" : "w";
}
/// A letter that is none means a mode alone: that of a mutex, of read-write keys `write`.
core::Mode mode_of_letter(std::string_view letter, core::Kind kind) noexcept;

/// The owner as stored with a grant: one that is held off has a mark before its JSON.
void set_owner(HolderInfo& holder, std::string_view stored);

/// What of a request its answer depends on.
struct Asked {
    SubjectPtr subject;
    core::Mode mode;
    std::uint32_t permits;
};
bool is_acquire_answer(const redisReply& reply);
AcquireAnswer acquire_answer(const redisReply& reply, const Asked& asked);

/// An integer, or a refusal.
bool is_status_answer(const redisReply& reply);
Result<long long> status_of(const Result<ReplyPtr>& reply, const Key& key, core::Mode wanted);
/// A refusal for a record of another kind says only that the attempt has nothing there.
Result<Released> released_of(const Result<ReplyPtr>& reply, const Key& key, core::Mode mode);

bool is_configure_answer(const redisReply& reply);
Result<Configured> configured_of(const Result<ReplyPtr>& reply, const Key& key);

/// Two numbers for each ticket of a command.
bool turns(const redisReply& reply, const std::vector<std::size_t>& positions,
           std::vector<RenewAnswer>& answers);

}  // namespace dlock::store::redis
