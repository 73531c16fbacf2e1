// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "cli/output.hpp"
#include "cli/syntax.hpp"
#include "cli/table.hpp"
#include "cli/text.hpp"
#include "cli/units.hpp"
#include "cli/verbs.hpp"

namespace dlock::cli {
namespace {

std::string or_dash(const std::optional<std::chrono::milliseconds>& duration) {
    return duration ? human(*duration) : "-";
}

/// "exclusive", "shared", "permit, 2 of 3 out", "held off"
std::string mode_of(const LockInfo& lock, const HolderInfo& holder) {
    if (holder.held_off) return "held off";
    if (!lock.permits) return printable(holder.mode);
    return printable(holder.mode) + ", " + std::to_string(lock.holders.size()) + " of " +
           std::to_string(*lock.permits) + " out";
}

void add_rows(const LockInfo& lock, std::vector<Row>& rows) {
    const std::string waiting = std::to_string(lock.waiter_count);
    if (!lock.problem.empty())
        rows.push_back({lock.key.text(), "! " + printable(lock.problem), "-", "-", "-", "-", waiting, "-"});
    if (lock.problem.empty() && lock.holders.empty())
        rows.push_back({lock.key.text(), "free", "-", "-", "-",
                        lock.last_fence ? std::to_string(lock.last_fence->value) : "-", waiting, "-"});
    for (const HolderInfo& holder : lock.holders)
        rows.push_back({lock.key.text(), describe(holder.owner), mode_of(lock, holder),
                        or_dash(holder.held_for), or_dash(holder.expires_in),
                        holder.fence ? std::to_string(holder.fence->value) : "-", waiting,
                        printable(holder.public_id)});
}

std::vector<LockInfo> read_all(const Client& client, Filter filter) {
    std::vector<LockInfo> locks;
    do {
        Page page = value_or_fail(client.list(filter));
        std::move(page.locks.begin(), page.locks.end(), std::back_inserter(locks));
        filter.cursor = std::move(page.next);
    } while (!filter.cursor.empty());
    return locks;
}

int perform(const Verb& verb, Call& call) {
    std::string prefix;
    bool all = false;
    Common common;
    Syntax syntax(verb);
    syntax.positional("PREFIX", prefix, "Only keys that begin so", Syntax::Need::optional);
    syntax.flag("-a,--all", all, "Free keys too that the store still remembers, for their fence");
    syntax.common(common);
    if (const auto done = syntax.parse(call)) return *done;
    Filter filter;
    filter.prefix = value_or_fail(Key::parse(prefix)).bytes();
    filter.held_only = !all;
    const std::vector<LockInfo> locks = read_all(open_client(common, "dlock"), std::move(filter));
    if (common.json) {
        boost::json::array array;
        for (const LockInfo& lock : locks) array.push_back(json_of(lock));
        boost::json::object object;
        object["locks"] = std::move(array);
        print(object);
        return exit_code::ok;
    }
    std::vector<Row> rows{{"KEY", "HOLDER", "MODE", "HELD FOR", "FREE IN", "FENCE", "IN LINE", "ID"}};
    for (const LockInfo& lock : locks) add_rows(lock, rows);
    print(table(rows));
    return exit_code::ok;
}

}  // namespace

const Verb list_verb = {"list", "list [OPTIONS] [PREFIX]",
                        "List the locks that are held, with their holders.",
                        "  dlock list\n"
                        "  dlock list billing/\n"
                        "  dlock list --all --json\n",
                        perform};

}  // namespace dlock::cli
