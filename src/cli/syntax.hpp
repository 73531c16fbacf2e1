// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/store_choice.hpp"
#include "cli/verbs.hpp"

namespace CLI {
class App;
}

namespace dlock::cli {

/// The words that a verb takes. A narrow face of CLI11, whose headers take 12 s to compile, so only one file
/// has them.
class Syntax {
public:
    enum class Need { required, optional };

    explicit Syntax(const Verb& verb);
    ~Syntax();
    Syntax(const Syntax&) = delete;
    Syntax& operator=(const Syntax&) = delete;

    /// --store, --local, --json.
    void common(Common& into);
    void positional(const char* name, std::string& into, const char* help, Need need = Need::required);
    void flag(const char* names, bool& into, const char* help);
    /// `value` is how the help names what follows: "DURATION".
    void option(const char* names, const char* value, std::optional<std::string>& into, const char* help);

    /// Reads the arguments. An exit code when that was all (--help); a Failure (64) for what does not fit.
    std::optional<int> parse(const Call& call);

private:
    std::unique_ptr<CLI::App> app_;
};

}  // namespace dlock::cli
