// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "cli/exit_code.hpp"
#include "dlock/client.hpp"

namespace dlock::cli {

/// The options that every verb takes.
struct Common {
    std::string store;   ///< --store; empty: the environment, then the host's or the user's own file
    bool local = false;  ///< --local: no word about how far an SQLite store reaches
    bool json = false;
};

/// Opens the store that was chosen, and says on stderr when its locks do not reach beyond this host or user.
Client open_client(const Common& common, const std::string& service, const ClientOptions& options = {});

/// The URL of the store that open_client() opens, without its password.
std::string chosen_store(const Common& common);

/// "dlock force-release KEY --seen ID", ready for a shell, with the store where it was named on the command
/// line.
std::string free_command(const Common& common, const LockInfo& lock);

/// Who wanted a lock and did not get it learns who has it, and how to free that.
void add_holder(Failure& failure, const Client& client, const Key& key, const Common& common);

}  // namespace dlock::cli
