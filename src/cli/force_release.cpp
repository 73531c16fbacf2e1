// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <boost/json/object.hpp>
#include <unistd.h>

#include "cli/output.hpp"
#include "cli/syntax.hpp"
#include "cli/text.hpp"
#include "cli/verbs.hpp"

namespace dlock::cli {
namespace {

/// Also `resign`, which is the same said to a leader.
class ForceRelease {
public:
    struct Words {
        const char* question;
        const char* done;
    };
    explicit ForceRelease(const Words& words) : words_(words) {}
    int perform(const Verb& verb, const Call& call);

private:
    void check() const;
    /// The id that was seen, after a person said yes to it. Nothing when there is nothing to free.
    [[nodiscard]] std::optional<std::string> ask(const Verb& verb, const Client& client,
                                                 const Key& key) const;
    [[nodiscard]] int tell(const Client& client, const Key& key, const std::string& seen,
                           Forced forced) const;

    const Words words_;
    std::string key_text_;
    std::optional<std::string> seen_;
    Common common_;
};

void ForceRelease::check() const {
    const auto hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
    if (seen_ && (seen_->size() != 12 || !std::all_of(seen_->begin(), seen_->end(), hex)))
        throw Failure(errc::invalid_argument, "--seen '" + *seen_ +
                                                  "': give the id that dlock list or dlock show names, "
                                                  "12 hexadecimal digits in lower case");
}

std::optional<std::string> ForceRelease::ask(const Verb& verb, const Client& client, const Key& key) const {
    const LockInfo lock = value_or_fail(client.show(key));
    say(key.text() + " is " + describe(lock));
    if (lock.holders.empty()) return std::nullopt;
    if (::isatty(STDIN_FILENO) != 1 || ::isatty(STDERR_FILENO) != 1) {
        Failure failure(errc::invalid_argument,
                        std::string(verb.name) +
                            " needs --seen ID, so that it ends the grant you looked at and no other");
        failure.free_with = free_command(common_, lock);
        throw failure;
    }
    say(words_.question);
    char answer[16] = {};
    const ssize_t size = ::read(STDIN_FILENO, answer, sizeof answer - 1);
    if (size > 0 && (answer[0] == 'y' || answer[0] == 'Y')) return lock.holders.front().public_id;
    throw Failure(exit_code::not_had, "declined", "nothing was changed");
}

int ForceRelease::tell(const Client& client, const Key& key, const std::string& seen, Forced forced) const {
    if (forced == Forced::moved_on) {
        Failure failure(exit_code::not_had, "moved_on",
                        "the grant " + seen + " does not hold " + key.text() + " any more; another one does");
        add_holder(failure, client, key, common_);
        throw failure;
    }
    if (common_.json) {
        boost::json::object object;
        object["key"] = key.text();
        object["publicId"] = seen;
        object["outcome"] = forced == Forced::done ? "done" : "already_free";
        print(object);
    } else {
        print(key.text() + (forced == Forced::done ? words_.done : " is already free\n"));
    }
    return exit_code::ok;
}

int ForceRelease::perform(const Verb& verb, const Call& call) {
    Syntax syntax(verb);
    syntax.positional("KEY", key_text_, "The lock");
    syntax.option("--seen", "ID", seen_, "The id of the grant to end, as dlock list and dlock show name it");
    syntax.common(common_);
    if (const auto done = syntax.parse(call)) return *done;
    const Key key = value_or_fail(Key::parse(key_text_));
    value_or_fail(key.check());
    check();
    const Client client = open_client(common_, "dlock");
    const std::optional<std::string> seen = seen_ ? seen_ : ask(verb, client, key);
    if (!seen) return tell(client, key, "", Forced::already_free);
    return tell(client, key, *seen, value_or_fail(client.force_release(key, *seen)));
}

constexpr ForceRelease::Words freeing{"its holder's work goes on until it notices. End this grant? [y/N]",
                                      " is freed\n"};
constexpr ForceRelease::Words stepping_down{
    "its command goes on until it notices. Have it step down? [y/N]",
    " has no leader now; the one it had ends its command at its next renewal\n"};

}  // namespace

const Verb force_release_verb = {
    "force-release", "force-release [OPTIONS] KEY",
    "End somebody's grant. Its holder's work goes on until it notices: stop the holder first where you can.\n"
    "Also called force-unlock.",
    "  dlock show billing/close-month\n"
    "  dlock force-release billing/close-month --seen 3f9a04c1be27\n",
    [](const Verb& verb, Call& call) { return ForceRelease(freeing).perform(verb, call); }};

const Verb resign_verb = {
    "resign", "resign [OPTIONS] KEY",
    "Ask the present leader to step down: its command is ended at its next renewal, and another leads.\n"
    "It is force-release for a key of dlock lead; the old leader stands again.",
    "  dlock resign scheduler\n"
    "  dlock resign scheduler --seen 3f9a04c1be27\n",
    [](const Verb& verb, Call& call) { return ForceRelease(stepping_down).perform(verb, call); }};

}  // namespace dlock::cli
