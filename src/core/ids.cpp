// SPDX-License-Identifier: Apache-2.0
#include "core/ids.hpp"

#include <sodium.h>

#include "core/blake2b.hpp"
#include "core/text.hpp"

namespace dlock::core {

Blake2b blake2b(std::string_view bytes) noexcept {
    [[maybe_unused]] static const int ready = sodium_init();  // chooses the code for this processor
    Blake2b hash{};
    crypto_generichash(hash.data(), hash.size(), reinterpret_cast<const unsigned char*>(bytes.data()),
                       bytes.size(), nullptr, 0);
    return hash;
}

template <class Tag>
std::string Id16<Tag>::hex() const {
    return to_hex(raw());
}
template struct Id16<GrantTag>;
template struct Id16<TicketTag>;

GrantId grant_id(const LeaseId::Secret& secret) noexcept {
    return GrantId{blake2b({reinterpret_cast<const char*>(secret.data()), secret.size()})};
}

GrantId held_off(const GrantId& id) noexcept {
    GrantId off;
    for (std::size_t i = 0; i < id.bytes.size(); ++i) off.bytes[i] = static_cast<std::uint8_t>(~id.bytes[i]);
    return off;
}

std::string public_id(std::string_view stored_owner) {
    const Blake2b hash = blake2b(stored_owner);
    return to_hex({reinterpret_cast<const char*>(hash.data()), 6});
}

}  // namespace dlock::core
