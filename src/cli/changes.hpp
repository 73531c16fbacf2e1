// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dlock/inspect.hpp"
#include "dlock/time.hpp"

namespace dlock::cli {

/// What was different between two looks at the locks.
struct LockChange {
    enum class Kind {
        held,      ///< at the first look already
        granted,   ///< a new grant
        released,  ///< a grant is gone before its time: released, forced, or deleted
        expired,   ///< a grant is gone, and its time was over
        waiting,   ///< more or fewer stand in line
        problem,   ///< the record cannot be read, or can again (then `text` is empty)
    };
    Kind kind;
    Key key;
    std::optional<HolderInfo> holder;  ///< of the grant that came or went
    std::size_t waiters = 0;           ///< now
    std::size_t waiters_before = 0;
    std::string text;
};
std::string_view to_string(LockChange::Kind kind) noexcept;

/// The locks as they were seen last. No I/O.
class Seen {
public:
    /// All that is different from the look before, key by key in their order; of a key what ended comes
    /// first.
    std::vector<LockChange> look(const std::vector<LockInfo>& locks, TimePoint at);

private:
    struct One {
        std::map<std::string, HolderInfo> holders;  ///< by public id
        std::size_t waiters = 0;
        std::string problem;
    };
    void compare(const Key& key, const One& before, const One& now, std::vector<LockChange>& changes) const;

    std::map<Key, One> last_;
    std::optional<TimePoint> looked_at_;
    std::chrono::milliseconds gone_by_{};  ///< since the look before
};

}  // namespace dlock::cli
