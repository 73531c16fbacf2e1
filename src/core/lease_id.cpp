// SPDX-License-Identifier: Apache-2.0
#include "dlock/lease_id.hpp"

#include <algorithm>

#include "core/blake2b.hpp"
#include "core/ids.hpp"
#include "core/text.hpp"

/// The text is "dl1_" and base64url of: version 1, secret (16), length of the handle (2, high byte first),
/// handle, key, checksum (4: the beginning of the BLAKE2b of all before it).
namespace dlock {
namespace {

constexpr std::string_view prefix = "dl1_";
constexpr char version = 1;
constexpr std::size_t head_size = 1 + LeaseId::secret_size + 2;
constexpr std::size_t checksum_size = 4;

std::string checksum(std::string_view bytes) {
    const core::Blake2b hash = core::blake2b(bytes);
    return {hash.begin(), hash.begin() + checksum_size};
}

Error damaged() {
    return {errc::invalid_argument,
            "this is no lease id, or a damaged or cut one; give the whole text that begins with dl1_"};
}

}  // namespace

std::string LeaseId::text() const {
    std::string bytes(1, version);
    bytes.append(secret_.begin(), secret_.end());
    bytes += static_cast<char>(handle_.size() >> 8 & 255);
    bytes += static_cast<char>(handle_.size() & 255);
    bytes += handle_;
    bytes += key_.bytes();
    bytes += checksum(bytes);
    return std::string(prefix) + core::to_base64url(bytes);
}

Result<LeaseId> LeaseId::parse(std::string_view text) {
    if (!text.starts_with(prefix)) return damaged();
    const std::optional<std::string> decoded = core::from_base64url(text.substr(prefix.size()));
    if (!decoded || decoded->size() < head_size + checksum_size || decoded->front() != version)
        return damaged();
    const std::string_view bytes = std::string_view(*decoded).substr(0, decoded->size() - checksum_size);
    if (checksum(bytes) != decoded->substr(bytes.size())) return damaged();

    Secret secret{};
    std::copy_n(bytes.begin() + 1, secret_size, secret.begin());
    const auto byte_at = [&](std::size_t at) { return std::size_t{static_cast<std::uint8_t>(bytes[at])}; };
    const std::size_t handle_size = byte_at(head_size - 2) << 8 | byte_at(head_size - 1);
    if (head_size + handle_size > bytes.size()) return damaged();
    Key key{std::string(bytes.substr(head_size + handle_size))};
    if (!key.check()) return damaged();
    return LeaseId(std::move(key), secret, std::string(bytes.substr(head_size, handle_size)));
}

std::string LeaseId::public_id() const { return core::public_id(core::grant_id(secret_)); }

}  // namespace dlock
