// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <csignal>

#include "cli/output.hpp"
#include "cli/verbs.hpp"
#include "dlock/client.hpp"

namespace dlock::cli {
namespace {

constexpr std::array verbs = {&run_verb,     &once_verb,      &lead_verb, &acquire_verb, &renew_verb,
                              &release_verb, &list_verb,      &show_verb, &watch_verb,   &force_release_verb,
                              &resign_verb,  &configure_verb, &scan_verb, &doctor_verb,  &bench_verb};
constexpr std::array with_command = {&run_verb, &once_verb, &lead_verb};

const Verb* find_verb(std::string_view name) {
    if (name == "force-unlock") name = force_release_verb.name;
    const auto found =
        std::find_if(verbs.begin(), verbs.end(), [&](const Verb* verb) { return verb->name == name; });
    return found == verbs.end() ? nullptr : *found;
}

std::string overview() {
    std::string text =
        "dlock: one lock across processes and machines, on the store you already run.\n\n"
        "Usage: dlock VERB [OPTIONS] ...\n\nVerbs (dlock VERB --help has the options and examples):\n";
    for (const Verb* verb : verbs) {
        std::string name(verb->name);
        name.resize(15, ' ');
        text += "  " + name + std::string(verb->summary.substr(0, verb->summary.find('\n'))) + "\n";
    }
    return text +
           "\nExamples:\n"
           "  dlock run nightly -- ./backup.sh        run it while nobody else holds \"nightly\"\n"
           "  dlock run -n nightly -- ./backup.sh     exit 75 when it is held\n"
           "  dlock list\n"
           "  DLOCK_STORE=redis://10.0.0.5 dlock run --wait 1m nightly -- ./backup.sh\n\n"
           "Exit codes: the command's own, or 128+n for a signal; 75 not had; 76 lost; 64 usage; 69 store\n"
           "unreachable or unknown outcome; 77 no right; 78 configuration; 125 internal; 126 and 127 the\n"
           "command cannot be executed, is not found.\n";
}

/// Splits at the first `--` and takes the verb out: the first word that is neither an option nor --store's
/// value.
const Verb* split(int count, char** words, Call& call) {
    const Verb* verb = nullptr;
    for (int i = 1; i < count; ++i) {
        const std::string_view word = words[i];
        if (word == "--") {
            call.command.emplace(words + i + 1, words + count);
            break;
        }
        const bool value = i > 1 && std::string_view(words[i - 1]) == "--store";
        if (verb == nullptr && !value && !word.starts_with('-')) {
            verb = find_verb(word);
            if (verb == nullptr)
                throw Failure(errc::invalid_argument,
                              "no verb '" + std::string(word) + "' (see dlock --help)");
            continue;
        }
        call.arguments.emplace_back(word);
    }
    return verb;
}

bool has(const Call& call, std::string_view word) {
    return std::find(call.arguments.begin(), call.arguments.end(), word) != call.arguments.end();
}

int perform(int count, char** words, Call& call) {
    if (const Verb* verb = split(count, words, call)) {
        // Where there is no command, what is behind -- is only not an option.
        const bool takes_command =
            std::find(with_command.begin(), with_command.end(), verb) != with_command.end();
        if (!takes_command && call.command) {
            call.arguments.emplace_back("--");
            call.arguments.insert(call.arguments.end(), call.command->begin(), call.command->end());
            call.command.reset();
        }
        return verb->perform(*verb, call);
    }
    if (has(call, "--version")) {
        print("dlock " + std::string(version()) + "\n");
        return exit_code::ok;
    }
    if (!has(call, "--help") && !has(call, "-h"))
        throw Failure(errc::invalid_argument, "no verb (see dlock --help)");
    print(overview());
    return exit_code::ok;
}

int guarded(int count, char** words) noexcept {
    Call call;
    const auto end = [&](const Failure& failure) {
        // Not from `call`: what is wrong may be a word before --json.
        char** const stop = std::find(words + 1, words + count, std::string_view("--"));
        report(failure, std::find(words + 1, stop, std::string_view("--json")) != stop);
        return failure.exit();
    };
    try {
        return perform(count, words, call);
    } catch (const Failure& failure) {
        return end(failure);
    } catch (const std::exception& problem) {
        return end(Failure(exit_code::internal, "internal", problem.what()));
    }
}

}  // namespace
}  // namespace dlock::cli

int main(int count, char** words) {
    dlock::cli::open_standard_descriptors();
    // Blocked, not ignored, since what is ignored stays so for a command. A broken pipe is an error of
    // write().
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
    return dlock::cli::guarded(count, words);
}
