// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <boost/json/object.hpp>

#include "cli/output.hpp"
#include "cli/syntax.hpp"
#include "cli/text.hpp"
#include "cli/units.hpp"
#include "cli/verbs.hpp"

namespace dlock::cli {
namespace {

std::string line(std::string name, const std::string& value) {
    if (value.empty()) return {};
    name.resize(12, ' ');
    return name + printable(value) + "\n";
}

std::string text_of(const HolderInfo& holder) {
    std::string text = line("holder", describe(holder.owner)) + line("id", holder.public_id) +
                       line("mode", holder.mode == "exclusive" ? "" : holder.mode);
    if (holder.fence) text += line("fence", std::to_string(holder.fence->value));
    if (holder.held_for) text += line("held for", human(*holder.held_for));
    if (holder.held_off) text += line("held off", "its work has ended");
    if (holder.expires_in)
        text += line("free in", human(*holder.expires_in) + (holder.held_off ? "" : ", unless renewed"));
    return text + line("note", holder.owner.note) + line("business id", holder.owner.biz_id) +
           line("txid", holder.owner.txid);
}

const char* state_of(const LockInfo& lock) {
    if (lock.holders.empty()) return "free";
    const bool works = std::any_of(lock.holders.begin(), lock.holders.end(),
                                   [](const HolderInfo& holder) { return !holder.held_off; });
    return works ? "held" : "held off";
}

std::string text_of(const LockInfo& lock) {
    std::string text = line("key", lock.key.text()) + line("kind", lock.kind) +
                       line("state", state_of(lock)) + line("problem", lock.problem);
    if (lock.permits)
        text += line("permits", std::to_string(lock.holders.size()) + " of " + std::to_string(*lock.permits) +
                                    " are out");
    for (const HolderInfo& holder : lock.holders) text += text_of(holder);
    if (lock.holders.empty() && lock.last_fence)
        text += line("last fence", std::to_string(lock.last_fence->value));
    if (lock.waiter_count > 0) text += line("in line", std::to_string(lock.waiter_count));
    std::size_t place = 0;
    for (const WaiterInfo& waiter : lock.waiters) {
        std::string what = describe(waiter.owner);
        if (waiter.mode == "shared" || waiter.mode == "write") what += " (" + waiter.mode + ")";
        if (waiter.waited_for) what += " for " + human(*waiter.waited_for);
        if (!waiter.owner.note.empty()) what += ", \"" + waiter.owner.note + "\"";
        text += line("  " + std::to_string(++place), what);
    }
    return text;
}

int perform(const Verb& verb, Call& call) {
    std::string key_text;
    Common common;
    Syntax syntax(verb);
    syntax.positional("KEY", key_text, "The lock");
    syntax.common(common);
    if (const auto done = syntax.parse(call)) return *done;
    const Key key = value_or_fail(Key::parse(key_text));
    value_or_fail(key.check());
    const LockInfo lock = value_or_fail(open_client(common, "dlock").show(key));
    const std::string free_with = free_command(common, lock);
    if (common.json) {
        boost::json::object object = json_of(lock);
        if (!free_with.empty()) object["freeWith"] = free_with;
        print(object);
        return exit_code::ok;
    }
    std::string text = text_of(lock);
    if (!free_with.empty())
        text += "\nThe command that would free this grant, whose holder's work may still run:\n  " +
                free_with + "\n";
    print(text);
    return exit_code::ok;
}

}  // namespace

const Verb show_verb = {"show", "show [OPTIONS] KEY",
                        "Show one lock: its holder, its line, and how to free it.",
                        "  dlock show billing/close-month\n"
                        "  dlock show --json billing/close-month\n",
                        perform};

}  // namespace dlock::cli
