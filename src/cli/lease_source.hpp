// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "cli/syntax.hpp"
#include "dlock/lease_id.hpp"

namespace dlock::cli {

/// Where `renew` and `release` take the lease id from.
class LeaseSource {
public:
    void declare(Syntax& syntax);
    [[nodiscard]] LeaseId read() const;

private:
    std::string word_;
    std::optional<std::string> file_;
};

}  // namespace dlock::cli
