// SPDX-License-Identifier: Apache-2.0
#include "cli/changes.hpp"

namespace dlock::cli {

using Kind = LockChange::Kind;

std::string_view to_string(Kind kind) noexcept {
    switch (kind) {
        case Kind::held:
            return "held";
        case Kind::granted:
            return "granted";
        case Kind::released:
            return "released";
        case Kind::expired:
            return "expired";
        case Kind::waiting:
            return "waiting";
        case Kind::problem:
            return "problem";
    }
    return "?";
}

std::vector<LockChange> Seen::look(const std::vector<LockInfo>& locks, TimePoint at) {
    std::map<Key, One> now;
    for (const LockInfo& lock : locks) {
        One& one = now[lock.key];
        for (const HolderInfo& holder : lock.holders) one.holders.emplace(holder.public_id, holder);
        one.waiters = lock.waiter_count;
        one.problem = lock.problem;
    }
    gone_by_ = std::chrono::duration_cast<std::chrono::milliseconds>(at - looked_at_.value_or(at));
    std::map<Key, const One*> all;
    for (const auto& [key, one] : last_) all.emplace(key, nullptr);
    for (const auto& [key, one] : now) all[key] = &one;
    std::vector<LockChange> changes;
    const One none;
    for (const auto& [key, one] : all) {
        const auto before = last_.find(key);
        compare(key, before == last_.end() ? none : before->second, one == nullptr ? none : *one, changes);
    }
    last_ = std::move(now);
    looked_at_ = at;
    return changes;
}

void Seen::compare(const Key& key, const One& before, const One& now,
                   std::vector<LockChange>& changes) const {
    const auto add = [&](Kind kind) -> LockChange& {
        return changes.emplace_back(LockChange{.kind = kind,
                                               .key = key,
                                               .holder = {},
                                               .waiters = now.waiters,
                                               .waiters_before = before.waiters,
                                               .text = {}});
    };
    for (const auto& [id, holder] : before.holders) {
        if (now.holders.contains(id)) continue;
        // What was left is measured by the store, and its answer took a while to come.
        const bool over =
            holder.expires_in && *holder.expires_in <= gone_by_ + std::chrono::milliseconds(100);
        add(over ? Kind::expired : Kind::released).holder = holder;
    }
    for (const auto& [id, holder] : now.holders)
        if (!before.holders.contains(id)) add(looked_at_ ? Kind::granted : Kind::held).holder = holder;
    if (now.waiters != before.waiters) add(Kind::waiting);
    if (now.problem != before.problem) add(Kind::problem).text = now.problem;
}

}  // namespace dlock::cli
