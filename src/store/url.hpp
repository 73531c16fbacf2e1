// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dlock/result.hpp"

namespace dlock::store {

struct HostPort {
    std::string host;  ///< without the brackets of an IPv6 address
    std::optional<std::uint16_t> port;
};

/// A store URL: `scheme:path`, or `scheme://user:password@h1:1,h2:2/path?name=value`. Percent-decoded.
/// Boost.URL is not used since it knows one host only.
struct Url {
    std::string scheme;  ///< lower case
    std::string user;
    std::string password;
    std::vector<HostPort> hosts;
    std::string path;  ///< with its leading `/` where there was an authority
    std::map<std::string, std::string> params;

    static Result<Url> parse(std::string_view text);

    /// The URL with the password and secret parameters as `***`, for messages.
    [[nodiscard]] std::string redacted() const;
    /// `invalid_argument` naming the first parameter that is not among `known`.
    [[nodiscard]] Result<void> allow_params(std::initializer_list<std::string_view> known) const;
};

}  // namespace dlock::store
