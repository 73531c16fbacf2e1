// SPDX-License-Identifier: Apache-2.0
#include <boost/json/object.hpp>

#include "cli/output.hpp"
#include "cli/syntax.hpp"
#include "cli/units.hpp"
#include "cli/verbs.hpp"

namespace dlock::cli {
namespace {

int perform(const Verb& verb, Call& call) {
    std::string key_text;
    std::optional<std::string> permits_text;
    std::optional<std::string> current_text;
    Common common;
    Syntax syntax(verb);
    syntax.positional("KEY", key_text, "The permits key");
    syntax.option("--permits", "N", permits_text, "How many permits it has from now on");
    syntax.option("--if-current", "M", current_text, "Only if it has so many now; 0: only if the key is new");
    syntax.common(common);
    if (const auto done = syntax.parse(call)) return *done;
    const Key key = value_or_fail(Key::parse(key_text));
    value_or_fail(key.check());
    if (!permits_text)
        throw Failure(errc::invalid_argument, "--permits is missing: say how many the key is to have");
    constexpr int most = static_cast<int>(Semaphore::most);
    const auto permits = static_cast<std::uint32_t>(parse_number("--permits", *permits_text, 1, most));
    std::optional<std::uint32_t> current;
    if (current_text)
        current = static_cast<std::uint32_t>(parse_number("--if-current", *current_text, 0, most));
    const auto now = value_or_fail(open_client(common, "dlock").configure(key, permits, current));
    if (common.json) {
        boost::json::object object;
        object["key"] = key.text();
        object["permits"] = now;
        print(object);
    } else {
        print(key.text() + " has " + std::to_string(now) + (now == 1 ? " permit\n" : " permits\n"));
    }
    return exit_code::ok;
}

}  // namespace

const Verb configure_verb = {"configure", "configure [OPTIONS] KEY",
                             "Say how many permits a key has, from now on and for good.\n"
                             "Those that are out stay out, even when there are fewer now.",
                             "  dlock configure encoders --permits 3\n"
                             "  dlock configure encoders --permits 5 --if-current 3\n"
                             "  dlock run --permits configured encoders -- ./encode film.mkv\n",
                             perform};

}  // namespace dlock::cli
