// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "dlock/lease_id.hpp"

namespace dlock::core {

/// 16 random or hashed bytes. Distinct types for distinct things: the Tag is never defined.
template <class Tag>
struct Id16 {
    std::array<std::uint8_t, 16> bytes{};

    [[nodiscard]] std::string hex() const;
    [[nodiscard]] std::string_view raw() const noexcept {
        return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    }
    friend auto operator<=>(const Id16&, const Id16&) = default;
};

/// What the store keeps of a grant: the hash of its LeaseId's secret. Also the attempt's id: an acquire that
/// is repeated with it gets its first outcome. Calls of the seam carry only this, never the secret.
using GrantId = Id16<struct GrantTag>;

/// A place in line. One a key and process, handed from one local waiter to the next.
using TicketId = Id16<struct TicketTag>;

/// BLAKE2b-128 of the secret.
GrantId grant_id(const LeaseId::Secret& secret) noexcept;

/// Under which a grant stands while its lock is held off after the work: nobody can renew or release it.
GrantId held_off(const GrantId& id) noexcept;

/// 12 hexadecimal digits that name a grant where people look. For the bytes that a store keeps as owner: the
/// beginning of their hash, so that a list never shows what would be needed to release (layout `plain`).
std::string public_id(std::string_view stored_owner);
inline std::string public_id(const GrantId& id) { return public_id(id.raw()); }

/// Cryptographic random bytes, taken from the kernel a page at a time. Any thread.
void random_bytes(std::uint8_t* out, std::size_t size) noexcept;
template <class Id>
Id random_id() noexcept {
    Id id;
    random_bytes(id.bytes.data(), id.bytes.size());
    return id;
}

}  // namespace dlock::core

template <class Tag>
struct std::hash<dlock::core::Id16<Tag>> {
    std::size_t operator()(const dlock::core::Id16<Tag>& id) const noexcept {
        return std::hash<std::string_view>{}(id.raw());
    }
};
