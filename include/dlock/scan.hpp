// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dlock {

/// One lock in a store, of whatever program, as `Client::scan()` recognised it.
struct FoundLock {
    enum class Sure {
        certain,  ///< only this program writes such a record
        likely,   ///< the form is right, and other data seldom has it
        perhaps,  ///< only the name, or a form that other data has too
    };
    std::string name;    ///< as it is stored: the bytes of the key, or TABLE/NAME
    std::string layout;  ///< "dlock", "plain", "redisson", "redis-py", "shedlock", ...
    Sure sure = Sure::perhaps;
    std::string how;     ///< by what it was recognised
    std::string holder;  ///< who holds it, as far as the record tells; empty: it does not tell, or it is free
    bool held = true;    ///< false: free, but remembered
    std::optional<std::chrono::milliseconds> held_for;
    std::optional<std::chrono::milliseconds> expires_in;  ///< none: see `flags`
    std::size_t waiters = 0;                              ///< where the layout keeps a line
    std::vector<std::string> flags;  ///< what the person on call should see: "never expires", "no owner"
};

std::string_view to_string(FoundLock::Sure sure) noexcept;

/// What to look at. A page is one bounded step, so it may be empty and have a `next` all the same.
struct ScanRequest {
    std::string match{};   ///< a pattern of names with `*`, `?` and `[...]`; empty: all
    std::string cursor{};  ///< from the page before
};

struct ScanPage {
    std::vector<FoundLock> locks;
    std::uint64_t looked_at = 0;         ///< names of this step
    std::optional<std::uint64_t> total;  ///< names in the store, about; on the first page only
    std::string next;                    ///< the cursor of the next page; empty at the end
};

}  // namespace dlock
