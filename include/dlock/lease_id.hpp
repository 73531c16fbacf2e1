// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "dlock/key.hpp"

namespace dlock {

/// A number that is higher for each later grant of a key. Give it to the protected resource, which refuses a
/// lower one than it has seen: that is what guards against a holder that was paused past its lease.
/// A store without one gives no Fence at all (`std::optional<Fence>`), never an invented one.
struct Fence {
    std::uint64_t value = 0;
    friend auto operator<=>(const Fence&, const Fence&) = default;
};

/// The proof of one grant: whoever has it can renew and release, nobody else can. It names the key, so that
/// it is enough by itself: store it, hand it to another process, give it to `dlock release`. It is a secret.
/// Lists, logs and events show `public_id()` instead. Values; any thread.
class LeaseId {
public:
    static constexpr std::size_t secret_size = 16;
    using Secret = std::array<std::uint8_t, secret_size>;

    LeaseId(Key key, Secret secret, std::string handle = {})
        : key_(std::move(key)), secret_(secret), handle_(std::move(handle)) {}

    /// Reads `text()`; anything damaged or cut is `invalid_argument` (a checksum is inside).
    static Result<LeaseId> parse(std::string_view text);
    /// "dl1_" and base64url characters.
    [[nodiscard]] std::string text() const;

    /// 12 hexadecimal digits of the secret's hash: safe to show and to log.
    [[nodiscard]] std::string public_id() const;

    [[nodiscard]] const Key& key() const noexcept { return key_; }
    [[nodiscard]] const Secret& secret() const noexcept { return secret_; }
    /// What the store needs besides the secret (etcd: its lease number); opaque, mostly empty.
    [[nodiscard]] const std::string& handle() const noexcept { return handle_; }

    friend bool operator==(const LeaseId&, const LeaseId&) = default;

private:
    Key key_;
    Secret secret_;
    std::string handle_;
};

}  // namespace dlock
