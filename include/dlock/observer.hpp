// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "dlock/key.hpp"
#include "dlock/lease_id.hpp"
#include "dlock/time.hpp"

namespace dlock {

/// One thing that happened to a lock of this client.
struct Event {
    enum class Kind {
        waiting,  ///< a place in line was taken, or the wait goes on; `detail` says behind whom
        granted,
        renewed,
        late,  ///< a renewal has had no answer for a tenth of the lease; the lease still holds
        lost,
        released,
        forced,  ///< this client ended somebody's grant
    };
    Kind kind;
    TimePoint at;
    Key key;
    std::string public_id;  ///< of the grant (or the attempt that waits); never the secret
    std::optional<Fence> fence;
    std::string detail;  ///< reason, or the holder one waits for

    Event(Kind k, TimePoint t, Key name, std::string id)
        : kind(k), at(t), key(std::move(name)), public_id(std::move(id)) {}
};

std::string_view to_string(Event::Kind kind) noexcept;

/// Gets the events of one client, on its delivery thread, in order for one lease unless a call takes over 10
/// ms (then another thread takes what follows). It may call into the client, but should not block for long.
class Observer {
public:
    virtual ~Observer() = default;
    virtual void on_event(const Event& event) noexcept = 0;
};

}  // namespace dlock
