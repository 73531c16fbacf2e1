// SPDX-License-Identifier: Apache-2.0
#include "store/redis/recognise.hpp"

#include <algorithm>
#include <charconv>

#include "core/ids.hpp"
#include "store/owner_json.hpp"
#include "store/redis/answers.hpp"
#include "store/redis/names.hpp"

namespace dlock::store::redis {
namespace {

using Sure = FoundLock::Sure;

template <class Test>
bool all(std::string_view text, Test test) {
    return !text.empty() && std::all_of(text.begin(), text.end(), test);
}
bool digit(char c) { return c >= '0' && c <= '9'; }
bool hex(char c) { return digit(c) || (c >= 'a' && c <= 'f'); }
bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// 8-4-4-4-12 hexadecimal digits.
bool is_uuid(std::string_view text) {
    if (text.size() != 36) return false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        const char lower = letter(text[i]) ? static_cast<char>(text[i] | 0x20) : text[i];
        if (dash ? text[i] != '-' : !hex(lower)) return false;
    }
    return true;
}

bool named_lock(std::string_view name) {
    std::string lower(name);
    for (char& c : lower)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
    return lower.find("lock") != std::string::npos || lower.find("mutex") != std::string::npos;
}

std::string describe(const Owner& owner) {
    std::string text = owner.service;
    if (!owner.host.empty()) text += (text.empty() ? "" : "@") + owner.host;
    if (owner.pid != 0) text += " (pid " + std::to_string(owner.pid) + ")";
    return text;
}

long long number(std::string_view digits) {
    long long value = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return value;
}

struct Form {
    const char* layout;
    Sure sure;
    const char* how;
};

/// By the token alone. What follows from the name comes after it.
std::optional<Form> form_of(const SeenString& seen) {
    const std::string_view value = seen.value;
    if (value.size() == 32 && all(value, hex)) {
        // The version and the variant of a UUID stand at fixed digits.
        if (value[12] == '1' && std::string_view("89ab").find(value[16]) != std::string_view::npos)
            return Form{"redis-py", Sure::likely, "a UUID of version 1 as 32 hexadecimal digits"};
        return Form{"plain", Sure::likely,
                    "a token of 32 hexadecimal digits, as node-redlock and dlock write"};
    }
    const auto base64 = [](char c) { return digit(c) || letter(c) || c == '+' || c == '/'; };
    if (value.size() == 24 && value.ends_with("==") && all(value.substr(0, 22), base64))
        return Form{"redsync", Sure::likely, "a token of 16 bytes in base64"};
    if (is_uuid(value)) {
        if (seen.name.find(':') != std::string::npos)
            return Form{"spring", Sure::likely, "REGISTRY:KEY with a UUID, as Spring's RedisLockRegistry"};
        return Form{"plain", Sure::likely, "a UUID as the token"};
    }
    if (value.size() == 22 &&
        all(value, [](char c) { return digit(c) || letter(c) || c == '-' || c == '_'; }))
        return Form{"redislock", Sure::perhaps, "a token of 16 bytes in base64url, as bsm/redislock"};
    if (value.size() == 20 && all(value, [](char c) { return digit(c) || letter(c); }))
        return Form{"redis-plus-plus", Sure::perhaps, "a token of 20 letters and digits"};
    return std::nullopt;
}

/// job-lock:ENVIRONMENT:NAME = ADDED:<time>@<host>
std::optional<FoundLock> shedlock(const SeenString& seen) {
    if (!seen.value.starts_with("ADDED:")) return std::nullopt;
    const std::size_t at = seen.value.find('@');
    if (at == std::string::npos) return std::nullopt;
    FoundLock found;
    found.layout = "shedlock";
    found.sure = seen.name.starts_with("job-lock:") ? Sure::certain : Sure::likely;
    found.how = "ADDED:<time>@<host>, as ShedLock's Redis provider writes";
    found.holder = seen.value.substr(at + 1) + " since " + seen.value.substr(6, at - 6);
    return found;
}

/// The companion counts only when it is of this very token.
bool add_companion(const SeenString& seen, FoundLock& found) {
    const std::string_view text = seen.companion;
    const std::size_t since_at = text.find(';');
    if (since_at == std::string_view::npos || text.substr(0, since_at) != public_id_of_token(seen.value))
        return false;
    const std::size_t owner_at = text.find(';', since_at + 1);
    if (owner_at == std::string_view::npos) return false;
    const long long since = number(text.substr(since_at + 1, owner_at - since_at - 1));
    found.layout = "plain";
    found.sure = Sure::certain;
    found.how = "dlock's companion key, which fits the token";
    found.holder = describe(owner_from_json(text.substr(owner_at + 1)));
    if (seen.now_us > since) found.held_for = to_ms(seen.now_us - since);
    return true;
}

void finish(FoundLock& found, const std::string& name, long long left) {
    found.name = name;
    if (left >= 0)
        found.expires_in = std::chrono::milliseconds(left);
    else
        found.flags.emplace_back("never expires");
    if (found.holder.empty()) found.flags.emplace_back("no owner recorded");
}

/// "UUID:THREAD", of a write lock with ":write" behind it.
bool is_redisson_owner(std::string_view field) {
    if (field.ends_with(":write")) field.remove_suffix(6);
    return field.size() > 37 && field[36] == ':' && is_uuid(field.substr(0, 36)) &&
           all(field.substr(37), digit);
}

}  // namespace

bool is_side_name(std::string_view name) {
    for (const std::string_view start : {"dlock:meta:", "redisson_lock_queue:", "redisson_lock_timeout:",
                                         "redisson_lock_token:", "redisson_unlock_latch:"})
        if (name.starts_with(start)) return true;
    return name == floor_name || name.find(":rwlock_timeout:") != std::string_view::npos;
}

bool may_be_lock(std::string_view name, long long left) { return left >= 0 || named_lock(name); }

std::optional<FoundLock> recognise(const SeenString& seen) {
    FoundLock found;
    if (add_companion(seen, found)) {
        finish(found, seen.name, seen.left);
        return found;
    }
    if (auto made = shedlock(seen)) {
        finish(*made, seen.name, seen.left);
        return made;
    }
    const bool named = named_lock(seen.name);
    const auto form = form_of(seen);
    // A token that never expires and is not called a lock is data.
    if (!named && (!form || seen.left < 0)) return std::nullopt;
    found.layout = form ? form->layout : "plain";
    found.sure = form ? (named ? Sure::likely : form->sure) : Sure::perhaps;
    found.how = form ? form->how : "only its name says that it is a lock";
    if (form && seen.value.size() != 36)
        found.holder = "token with id " + public_id_of_token(seen.value);
    else if (form)
        found.holder = "client " + seen.value;
    finish(found, seen.name, seen.left);
    return found;
}

std::optional<FoundLock> recognise(const SeenHash& seen) {
    FoundLock found;
    std::size_t owners = 0;
    bool mode = false;
    for (const auto& [field, value] : seen.fields) {
        if (field == "mode" && (value == "read" || value == "write")) {
            mode = true;
            continue;
        }
        if (!is_redisson_owner(field) || !all(value, digit)) return std::nullopt;
        if (++owners > 3) continue;
        found.holder += (found.holder.empty() ? "client " : ", client ") + field.substr(0, 36) + " thread " +
                        field.substr(37) + (value == "1" ? "" : ", held " + value + " times");
    }
    if (owners == 0) return std::nullopt;
    if (owners > 3) found.holder += " and " + std::to_string(owners - 3) + " more";
    found.layout = "redisson";
    found.sure = Sure::certain;
    found.how = std::string("a hash of UUID:THREAD") + (mode              ? " with a mode (RReadWriteLock)"
                                                        : seen.queued > 0 ? " with a queue (RFairLock)"
                                                                          : " (RLock)");
    found.waiters = seen.queued;
    finish(found, seen.name, seen.left);
    return found;
}

FoundLock recognise(const SeenRecord& seen) {
    FoundLock found;
    found.name = seen.key;
    found.layout = "dlock";
    found.sure = Sure::certain;
    found.how = "dlock's own record";
    found.waiters = seen.queued;
    const std::string problem = seen.version.starts_with("1:") ? std::string() : problem_of(seen.version);
    if (!problem.empty()) {
        found.flags.push_back(problem);
        return found;
    }
    const long long left = number(seen.expires) - seen.now_us;
    found.held = !seen.grant.empty() && left > 0;
    if (!found.held) return found;
    found.holder = describe(owner_from_json(seen.owner));
    found.held_for = to_ms(seen.now_us - number(seen.since));
    found.expires_in = to_ms(left);
    if (found.holder.empty()) found.flags.emplace_back("no owner recorded");
    return found;
}

}  // namespace dlock::store::redis
