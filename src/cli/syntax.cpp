// SPDX-License-Identifier: Apache-2.0
#include "cli/syntax.hpp"

#include <algorithm>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "cli/output.hpp"

namespace dlock::cli {
namespace {

/// CLI11's help with our own first line, which it would guess from the options.
class Help final : public CLI::Formatter {
public:
    explicit Help(std::string_view synopsis) : synopsis_(synopsis) { column_width(34); }
    std::string make_usage(const CLI::App*, std::string) const override {
        return "\nUsage: dlock " + synopsis_ + "\n";
    }

private:
    std::string synopsis_;
};

}  // namespace

Syntax::Syntax(const Verb& verb)
    : app_(std::make_unique<CLI::App>(std::string(verb.summary), "dlock " + std::string(verb.name))) {
    app_->formatter(std::make_shared<Help>(verb.synopsis));
    app_->footer("\nExamples:\n" + std::string(verb.examples));
}

Syntax::~Syntax() = default;

void Syntax::common(Common& into) {
    app_->add_option("--store", into.store,
                     "Where the locks are; default: DLOCK_STORE, DLOCK_STORE_FILE, a local file")
        ->type_name("URL");
    flag("--local", into.local, "Do not say that an SQLite store is for one host or user");
    flag("--json", into.json, "One JSON object on stdout, errors too");
}

void Syntax::positional(const char* name, std::string& into, const char* help, Need need) {
    CLI::Option* added = app_->add_option(name, into, help)->type_name("");
    if (need == Need::required) added->required();
}

void Syntax::flag(const char* names, bool& into, const char* help) { app_->add_flag(names, into, help); }

void Syntax::option(const char* names, const char* value, std::optional<std::string>& into,
                    const char* help) {
    app_->add_option_function<std::string>(
            names, [&into](const std::string& text) { into = text; }, help)
        ->type_name(value);
}

std::optional<int> Syntax::parse(const Call& call) {
    std::vector<std::string> reversed(call.arguments.rbegin(), call.arguments.rend());
    try {
        app_->parse(std::move(reversed));
    } catch (const CLI::CallForHelp&) {
        print(app_->help());
        return exit_code::ok;
    } catch (const CLI::ParseError& problem) {
        throw Failure(errc::invalid_argument,
                      std::string(problem.what()) + " (see " + app_->get_name() + " --help)");
    }
    return std::nullopt;
}

}  // namespace dlock::cli
