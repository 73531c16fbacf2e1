// SPDX-License-Identifier: Apache-2.0
#include "dlock/key.hpp"

#include "core/text.hpp"

namespace dlock {

Result<Key> Key::parse(std::string_view text) {
    std::optional<std::string> bytes = core::unescape(text);
    if (!bytes)
        return Error(errc::invalid_argument,
                     "the key has a % without two hexadecimal digits behind it; write a plain % as %25");
    return Key{*std::move(bytes)};
}

std::string Key::text() const { return core::escape(bytes_); }

std::string_view Key::name_space() const noexcept {
    const auto slash = bytes_.find('/');
    return slash == std::string::npos ? std::string_view{} : std::string_view(bytes_).substr(0, slash);
}

Result<void> Key::check() const {
    if (bytes_.empty()) return Error(errc::invalid_argument, "the key is empty; give 1 to 1024 bytes");
    if (bytes_.size() > max_size)
        return Error(errc::invalid_argument,
                     "the key has " + std::to_string(bytes_.size()) + " bytes; give 1 to 1024 bytes");
    return {};
}

}  // namespace dlock
