// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dlock/key.hpp"
#include "dlock/lease_id.hpp"

namespace dlock {

/// Who holds or waits, as it was stored with the grant or the ticket. Empty text or pid 0: not recorded.
struct Owner {
    std::string service;
    std::string host;
    std::int64_t pid = 0;
    std::string instance;  ///< random, one a client
    std::string biz_id;
    std::string txid;
    std::string note;

    friend bool operator==(const Owner&, const Owner&) = default;
};

/// One grant, seen from outside. Ages are measured by the store's clock.
struct HolderInfo {
    std::string public_id;  ///< 12 hexadecimal digits; what `force_release` wants as `seen`
    std::string mode;       ///< "exclusive"; of a read-write key "write" or "shared"; "permit"
    bool held_off = false;  ///< the work has ended; the lock is kept back until `expires_in` is over
    Owner owner;
    std::optional<Fence> fence;
    std::optional<std::chrono::milliseconds> held_for;
    std::optional<std::chrono::milliseconds> expires_in;  ///< free then unless renewed; none: never
    std::chrono::system_clock::time_point since;          ///< for display only; epoch: not recorded
};

/// One place in line. The head is first.
struct WaiterInfo {
    Owner owner;
    std::string mode;  ///< as what it waits; as above
    std::optional<std::chrono::milliseconds> waited_for;
    std::optional<std::chrono::milliseconds> expires_in;  ///< the ticket's own lease
};

/// One key. Damaged and foreign records are rows with `problem` set, never an error of the whole list.
struct LockInfo {
    Key key{std::string{}};
    std::string kind;                      ///< "mutex", "read_write", "permits"; other kinds by name
    std::optional<std::uint32_t> permits;  ///< how many there are, of a permits key
    std::vector<HolderInfo> holders;       ///< at most 1000
    std::vector<WaiterInfo> waiters;       ///< at most 100 of them by `show`, none by a list
    std::size_t waiter_count = 0;
    std::optional<Fence> last_fence;
    std::string problem;  ///< what is wrong with the record, empty when fine
};

/// What to list.
struct Filter {
    std::string prefix{};      ///< keys that begin with these bytes
    bool held_only = true;     ///< leave out keys that are free but remembered (for their fence)
    std::size_t limit = 1000;  ///< rows a page, 1 to 10000
    std::string cursor{};      ///< from the page before
};

struct Page {
    std::vector<LockInfo> locks;
    std::string next;  ///< the cursor of the next page; empty at the end
};

/// What a forced release came to.
enum class Forced {
    done,          ///< the grant that was seen is ended; its holder is told at its next renewal
    already_free,  ///< nobody held the key
    moved_on,      ///< another grant holds it now; look again
};

}  // namespace dlock
