// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_set>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <unistd.h>

#include "cli/files.hpp"
#include "cli/output.hpp"
#include "cli/syntax.hpp"
#include "cli/table.hpp"
#include "cli/text.hpp"
#include "cli/units.hpp"
#include "cli/verbs.hpp"

namespace dlock::cli {
namespace {

namespace json = boost::json;
using namespace std::chrono_literals;

constexpr int default_limit = 1000;
constexpr int largest_limit = 1'000'000;

struct Found {
    std::vector<FoundLock> locks;
    std::uint64_t looked_at = 0;
    bool more = false;  ///< the limit ended it
};

/// One line on stderr that is written over, when that is a terminal, from the first second on.
class Progress {
public:
    Progress() : shown_(::isatty(STDERR_FILENO) == 1), next_(BootClock::now() + 1s) {}
    ~Progress() { clear(); }
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    void tell(const Found& found, std::optional<std::uint64_t> total) {
        if (!shown_ || BootClock::now() < next_) return;
        next_ = BootClock::now() + 200ms;
        std::string line = "\r\033[Kdlock: looked at " + std::to_string(found.looked_at);
        if (total && *total > 0)
            line += " of about " + std::to_string(*total) + " names (" +
                    std::to_string(std::min<std::uint64_t>(100, found.looked_at * 100 / *total)) + " %)";
        write_all(STDERR_FILENO, line + ", " + std::to_string(found.locks.size()) + " locks");
        written_ = true;
    }
    void clear() {
        if (std::exchange(written_, false)) write_all(STDERR_FILENO, "\r\033[K");
    }

private:
    const bool shown_;
    bool written_ = false;
    TimePoint next_;
};

struct Wanted {
    std::string match;
    std::size_t limit = default_limit;
};

Found look_through(const Client& client, const Wanted& wanted) {
    Found found;
    Progress progress;
    ScanRequest request;
    request.match = wanted.match;
    std::optional<std::uint64_t> total;
    std::unordered_set<std::string> seen;  // a step may bring a name again
    for (;;) {
        ScanPage page = value_or_fail(client.scan(request));
        found.looked_at += page.looked_at;
        if (page.total) total = page.total;
        for (FoundLock& lock : page.locks) {
            if (!seen.insert(lock.layout + "\n" + lock.name).second) continue;
            found.more = found.locks.size() == wanted.limit;
            if (found.more) break;
            found.locks.push_back(std::move(lock));
        }
        if (found.more || page.next.empty()) break;
        request.cursor = std::move(page.next);
        progress.tell(found, total);
    }
    std::sort(found.locks.begin(), found.locks.end(),
              [](const FoundLock& a, const FoundLock& b) { return a.name < b.name; });
    return found;
}

json::value json_of(const std::optional<std::chrono::milliseconds>& duration) {
    if (!duration) return nullptr;
    return duration->count();
}

json::object json_of(const FoundLock& lock) {
    json::object object;
    object["name"] = Key(lock.name).text();
    object["layout"] = lock.layout;
    object["sure"] = std::string(to_string(lock.sure));
    object["how"] = lock.how;
    object["held"] = lock.held;
    object["holder"] = lock.holder.empty() ? json::value(nullptr) : json::value(utf8(lock.holder));
    object["heldForMs"] = json_of(lock.held_for);
    object["expiresInMs"] = json_of(lock.expires_in);
    object["waiterCount"] = lock.waiters;
    json::array flags;
    for (const std::string& flag : lock.flags) flags.emplace_back(utf8(flag));
    object["flags"] = std::move(flags);
    return object;
}

Row row_of(const FoundLock& lock) {
    std::string flags;
    for (const std::string& flag : lock.flags) flags += (flags.empty() ? "! " : ", ") + printable(flag);
    const std::string holder = !lock.held ? "free" : lock.holder.empty() ? "-" : printable(lock.holder);
    return {Key(lock.name).text(),
            lock.layout,
            std::string(to_string(lock.sure)),
            holder,
            lock.held_for ? human(*lock.held_for) : "-",
            lock.expires_in ? human(*lock.expires_in) : "-",
            lock.waiters > 0 ? std::to_string(lock.waiters) : "-",
            flags};
}

/// Each layout once, with what it was recognised by.
std::string legend(const std::vector<FoundLock>& locks) {
    std::vector<Row> rows;
    for (const FoundLock& lock : locks) {
        Row row{"  " + lock.layout, std::string(to_string(lock.sure)), lock.how};
        if (std::find(rows.begin(), rows.end(), row) == rows.end()) rows.push_back(std::move(row));
    }
    std::sort(rows.begin(), rows.end());
    return rows.empty() ? "" : "\nrecognised by\n" + table(rows);
}

void print_text(const Found& found, const Wanted& wanted) {
    std::vector<Row> rows{{"NAME", "LAYOUT", "SURE", "HOLDER", "HELD FOR", "FREE IN", "IN LINE", "FLAGS"}};
    for (const FoundLock& lock : found.locks) rows.push_back(row_of(lock));
    std::string text = table(rows) + legend(found.locks);
    text += "\n" + std::to_string(found.locks.size()) + (found.locks.size() == 1 ? " lock" : " locks") +
            " among " + std::to_string(found.looked_at) + " names\n";
    print(text);
    if (found.more)
        say("there are more: --limit " + std::to_string(wanted.limit) +
            " ended it; raise it, or use --match");
}

void print_json(const Found& found) {
    json::array locks;
    for (const FoundLock& lock : found.locks) locks.push_back(json_of(lock));
    json::object object;
    object["locks"] = std::move(locks);
    object["lookedAt"] = found.looked_at;
    object["more"] = found.more;
    print(object);
}

int perform(const Verb& verb, Call& call) {
    std::string store;
    std::optional<std::string> match;
    std::optional<std::string> limit;
    Common common;
    Syntax syntax(verb);
    syntax.positional("STORE", store, "Where to look, in place of --store", Syntax::Need::optional);
    syntax.option("--match", "PATTERN", match, "Only names that fit, with *, ? and [abc]");
    syntax.option("--limit", "NUMBER", limit, "At most so many locks; default 1000");
    syntax.common(common);
    if (const auto done = syntax.parse(call)) return *done;
    if (!store.empty() && !common.store.empty())
        throw Failure(errc::invalid_argument, "STORE and --store name a store each; give one of them");
    if (!store.empty()) common.store = store;
    Wanted wanted{.match = match.value_or("")};
    if (limit) wanted.limit = static_cast<std::size_t>(parse_number("--limit", *limit, 1, largest_limit));
    const Found found = look_through(open_client(common, "dlock"), wanted);
    if (common.json)
        print_json(found);
    else
        print_text(found, wanted);
    return exit_code::ok;
}

}  // namespace

const Verb scan_verb = {
    "scan", "scan [OPTIONS] [STORE]",
    "Find the locks in a store, of whatever program, and who holds them.\n"
    "Reads only, in small steps. It knows the locks of dlock, Redisson, redis-py, redsync, node-redlock,\n"
    "Spring and ShedLock by their form, and says how sure it is.",
    "  dlock scan redis://10.0.0.5/0\n"
    "  dlock scan --match 'jobs:*' --json\n"
    "  dlock scan sqlite:/var/lib/app/app.db      # tables of ShedLock and of Spring\n",
    perform};

}  // namespace dlock::cli
