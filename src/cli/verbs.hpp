// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dlock::cli {

/// The words behind the verb. Everything behind the first `--` is the command of `run`, `once` and `lead`,
/// and never an option of ours.
struct Call {
    std::vector<std::string> arguments;
    std::optional<std::vector<std::string>> command;
};

/// A row of the table in main.cpp. `perform` returns the exit code or throws a Failure.
struct Verb {
    std::string_view name;
    std::string_view synopsis;
    std::string_view summary;
    std::string_view examples;
    int (*perform)(const Verb& verb, Call& call);
};

extern const Verb run_verb;
extern const Verb once_verb;
extern const Verb lead_verb;
extern const Verb acquire_verb;
extern const Verb renew_verb;
extern const Verb release_verb;
extern const Verb list_verb;
extern const Verb show_verb;
extern const Verb force_release_verb;
extern const Verb doctor_verb;
extern const Verb scan_verb;
extern const Verb watch_verb;
extern const Verb bench_verb;
extern const Verb resign_verb;
extern const Verb configure_verb;

}  // namespace dlock::cli
