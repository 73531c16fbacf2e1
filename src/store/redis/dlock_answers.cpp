// SPDX-License-Identifier: Apache-2.0
#include "store/redis/dlock_answers.hpp"

#include <array>
#include <charconv>

#include "store/by_rules.hpp"
#include "store/owner_json.hpp"
#include "store/redis/dlock_scripts.hpp"
#include "store/redis/names.hpp"

namespace dlock::store::redis {
namespace {

/// Of the elements of a holder; those of a key with many say the mode as well.
constexpr std::array holder_types{REDIS_REPLY_STRING,  REDIS_REPLY_INTEGER, REDIS_REPLY_INTEGER,
                                  REDIS_REPLY_INTEGER, REDIS_REPLY_INTEGER, REDIS_REPLY_STRING,
                                  REDIS_REPLY_STRING};
constexpr std::size_t all_of_holder = 2 + holder_types.size();

long long code_of(const redisReply& reply) {
    return reply.elements >= 1 && is_integer(at(reply, 0)) ? at(reply, 0).integer : 0;
}

bool is_refusal(const redisReply& reply) {
    return reply.elements == 2 && code_of(reply) == refused_code && is_string(at(reply, 1));
}

bool is_holder(const redisReply& reply) {
    if (reply.elements != all_of_holder && reply.elements != all_of_holder - 1) return false;
    for (std::size_t i = 2; i < reply.elements; ++i)
        if (at(reply, i).type != holder_types[i - 2]) return false;
    return true;
}

std::optional<HolderInfo> holder_of(const redisReply& reply, core::Kind kind) {
    if (reply.elements < all_of_holder - 1) return std::nullopt;
    HolderInfo info;
    info.public_id = public_id_of_token(text(at(reply, 2)));
    info.fence = Fence{static_cast<std::uint64_t>(at(reply, 3).integer)};
    info.held_for = to_ms(at(reply, 4).integer);
    info.expires_in = to_ms(at(reply, 5).integer);
    info.since = to_wall(at(reply, 6).integer);
    set_owner(info, text(at(reply, 7)));
    const bool many = reply.elements == all_of_holder;
    info.mode = core::to_string(mode_of_letter(many ? text(at(reply, 8)) : std::string_view(), kind));
    return info;
}

/// Takes the number before the next `;` off the text.
std::optional<std::uint64_t> take_number(std::string_view& stored) {
    std::uint64_t number = 0;
    const auto [end, failed] = std::from_chars(stored.data(), stored.data() + stored.size(), number);
    if (failed != std::errc{} || end == stored.data() + stored.size() || *end != ';') return std::nullopt;
    stored.remove_prefix(static_cast<std::size_t>(end - stored.data()) + 1);
    return number;
}

AcquireAnswer done_of(std::string_view stored, long long now, const Key& key) {
    const auto since = take_number(stored);
    const auto owner_size = since ? take_number(stored) : std::nullopt;
    if (!owner_size || *owner_size > stored.size())
        return Error(errc::foreign_record, Names(key.bytes()).done() +
                                               " is no result that dlock has written; delete it when nobody "
                                               "needs it");
    const auto at = static_cast<long long>(*since);
    return Done{.result = std::string(stored.substr(*owner_size)),
                .owner = owner_from_json(stored.substr(0, *owner_size)),
                .age = to_ms(std::max(now - at, 0LL)),
                .at = to_wall(at)};
}

}  // namespace

core::Mode mode_of_letter(std::string_view letter, core::Kind kind) noexcept {
    if (letter == "s") return core::Mode::shared;
    if (letter == "p") return core::Mode::permit;
    return kind == core::Kind::mutex ? core::Mode::exclusive : core::Mode::write;
}

void set_owner(HolderInfo& holder, std::string_view stored) {
    holder.held_off = stored.starts_with('-');
    holder.owner = owner_from_json(stored.substr(holder.held_off ? 1 : 0));
}

bool is_acquire_answer(const redisReply& reply) {
    if (is_string(reply)) return fence_of(text(reply)).has_value();
    if (!is_array(reply) || reply.elements < 2) return false;
    if (is_refusal(reply)) return true;
    const long long code = code_of(reply);
    if (code == done_code) return reply.elements == 3 && is_string(at(reply, 1)) && is_integer(at(reply, 2));
    if (!is_integer(at(reply, 1))) return false;
    if (code == limit_code || code == gone_code) return reply.elements == 2;
    if (code != queued_code && code != contended_code) return false;
    return reply.elements == 2 || is_holder(reply);
}

AcquireAnswer acquire_answer(const redisReply& reply, const Asked& asked) {
    const bool many = asked.mode != core::Mode::exclusive;
    if (is_string(reply))
        return Granted{.fence = fence_of(text(reply)),
                       .handle = many ? std::string(holders_handle) : std::string(),
                       .counted_from = {}};
    const Key& key = asked.subject->key;
    const long long code = code_of(reply);
    if (code == refused_code) return refusal(key, text(at(reply, 1)), asked.mode);
    if (code == done_code) return done_of(text(at(reply, 1)), at(reply, 2).integer, key);
    if (code == limit_code)
        return limit_differs(static_cast<std::uint32_t>(at(reply, 1).integer), asked.permits);
    if (code == gone_code) return grant_gone();
    std::optional<HolderInfo> holder = holder_of(reply, core::kind_of(asked.mode));
    if (code == queued_code)
        return Queued{.holder = std::move(holder), .place = static_cast<std::size_t>(at(reply, 1).integer)};
    const auto retry_in = holder ? holder->expires_in : std::nullopt;
    return Contended{.holder = std::move(holder), .retry_in = retry_in};
}

bool is_status_answer(const redisReply& reply) {
    return is_integer(reply) || (is_array(reply) && is_refusal(reply));
}

Result<long long> status_of(const Result<ReplyPtr>& reply, const Key& key, core::Mode wanted) {
    if (!reply) return in_record(reply.error(), key);
    if (is_array(**reply)) return refusal(key, text(at(**reply, 1)), wanted);
    return (*reply)->integer;
}

Result<Released> released_of(const Result<ReplyPtr>& reply, const Key& key, core::Mode mode) {
    if (reply && is_array(**reply) && kind_of(text(at(**reply, 1)))) return Released::not_owner;
    const Result<long long> code = status_of(reply, key, mode);
    if (!code) return code.error();
    return *code == 1 ? Released::released : Released::not_owner;
}

bool is_configure_answer(const redisReply& reply) {
    if (!is_array(reply) || reply.elements != 2) return false;
    return is_refusal(reply) || (is_integer(at(reply, 0)) && is_integer(at(reply, 1)));
}

Result<Configured> configured_of(const Result<ReplyPtr>& reply, const Key& key) {
    using What = core::ConfigureOutcome::What;
    if (!reply) return in_record(reply.error(), key);
    if (is_refusal(**reply)) {
        const std::string_view version = text(at(**reply, 1));
        if (kind_of(version)) return configured({.what = What::kind_differs, .permits = 0, .wake = {}});
        return refusal(key, version, core::Mode::permit);
    }
    return configured({.what = code_of(**reply) == 1 ? What::changed : What::differs,
                       .permits = static_cast<std::uint32_t>(at(**reply, 1).integer),
                       .wake = {}});
}

bool turns(const redisReply& reply, const std::vector<std::size_t>& positions,
           std::vector<RenewAnswer>& answers) {
    if (!is_array(reply) || reply.elements != 2 * positions.size()) return false;
    for (std::size_t i = 0; i < positions.size(); ++i) {
        const long long code = at(reply, 2 * i).integer;
        const long long left = at(reply, 2 * i + 1).integer;
        RenewAnswer& answer = answers[positions[i]];
        answer.renewal = code == 0 ? Renewal::lost : Renewal::renewed;
        answer.turn = code == 2;
        if (left >= 0) answer.holder_left = to_ms(left);
    }
    return true;
}

}  // namespace dlock::store::redis
