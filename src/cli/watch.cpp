// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <csignal>
#include <ctime>
#include <deque>
#include <mutex>
#include <thread>

#include <boost/json/object.hpp>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/changes.hpp"
#include "cli/events.hpp"
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
using std::chrono::milliseconds;

constexpr milliseconds longest_pause = 30s;
constexpr std::size_t shown_events = 10;

struct Watched {
    std::optional<Key> key;
    std::string prefix;
    milliseconds interval = 1s;
};

Result<std::vector<LockInfo>> read_locks(const Client& client, const Watched& watched) {
    std::vector<LockInfo> locks;
    if (watched.key) {
        Result<LockInfo> lock = client.show(*watched.key);
        if (!lock) return lock.error();
        locks.push_back(*std::move(lock));
        return locks;
    }
    Filter filter;
    filter.prefix = watched.prefix;
    do {
        Result<Page> page = client.list(filter);
        if (!page) return page.error();
        std::move(page->locks.begin(), page->locks.end(), std::back_inserter(locks));
        filter.cursor = std::move(page->next);
    } while (!filter.cursor.empty());
    std::sort(locks.begin(), locks.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
    return locks;
}

/// Looks on a thread of its own, so that a store that is silent holds up no signal.
class Looker {
public:
    using Answer = Result<std::vector<LockInfo>>;

    Looker(const Client& client, const Watched& watched, const Events& events)
        : client_(client), watched_(watched), events_(events) {}
    ~Looker() {
        if (thread_.joinable()) thread_.join();
    }
    Looker(const Looker&) = delete;
    Looker& operator=(const Looker&) = delete;

    [[nodiscard]] bool busy() const noexcept { return thread_.joinable(); }
    /// Only when it is not busy.
    void start() {
        thread_ = std::thread([this] {
            Answer answer = read_locks(client_, watched_);
            const std::lock_guard guard(mutex_);
            answer_.emplace(std::move(answer));
            events_.notify();
        });
    }
    std::optional<Answer> take() {
        std::optional<Answer> answer;
        {
            const std::lock_guard guard(mutex_);
            answer = std::exchange(answer_, std::nullopt);
        }
        if (answer) thread_.join();
        return answer;
    }

private:
    const Client& client_;
    const Watched& watched_;
    const Events& events_;
    std::thread thread_;
    std::mutex mutex_;
    std::optional<Answer> answer_;
};

std::string clock_text(const char* form) {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    const bool utc = std::string_view(form).ends_with("Z");
    if (utc)
        ::gmtime_r(&now, &parts);
    else
        ::localtime_r(&now, &parts);
    char text[40];
    return {text, std::strftime(text, sizeof text, form, &parts)};
}

std::string text_of(const LockChange& change) {
    std::string kind(to_string(change.kind));
    kind.resize(9, ' ');
    std::string text = clock_text("%H:%M:%S") + "  " + kind + change.key.text();
    if (change.holder) {
        text += change.kind == LockChange::Kind::granted || change.kind == LockChange::Kind::held ? " to "
                                                                                                  : " by ";
        text += describe(change.holder->owner);
        if (change.holder->fence) text += ", fence " + std::to_string(change.holder->fence->value);
        text += ", id " + printable(change.holder->public_id);
        if (!change.holder->owner.note.empty()) text += ", \"" + printable(change.holder->owner.note) + "\"";
    }
    if (change.kind == LockChange::Kind::waiting)
        text += ": " + std::to_string(change.waiters) + " in line, before " +
                std::to_string(change.waiters_before);
    if (change.kind == LockChange::Kind::problem)
        text += change.text.empty() ? ": is readable again" : ": " + printable(change.text);
    return text;
}

json::object json_of(const LockChange& change) {
    json::object object;
    object["at"] = clock_text("%Y-%m-%dT%H:%M:%SZ");
    object["event"] = std::string(to_string(change.kind));
    object["key"] = change.key.text();
    object["holder"] = change.holder ? json::value(cli::json_of(*change.holder)) : json::value(nullptr);
    object["waiterCount"] = change.waiters;
    if (change.kind == LockChange::Kind::problem)
        object["problem"] = change.text.empty() ? json::value(nullptr) : json::value(utf8(change.text));
    return object;
}

/// Where what is seen goes to: a table that is redrawn, lines, or JSON.
class Screen {
public:
    enum class Kind { table, lines, json };
    Screen(Kind kind, std::string title) : kind_(kind), title_(std::move(title)) {}

    void show(const std::vector<LockInfo>& locks, const std::vector<LockChange>& changes) {
        for (const LockChange& change : changes) {
            if (kind_ == Kind::json) print(json_of(change));
            if (kind_ == Kind::lines) print(text_of(change) + "\n");
            if (kind_ == Kind::table) remember(text_of(change));
        }
        locks_ = locks;
        draw();
    }

    void unreachable(const Error& error, milliseconds pause) {
        std::string text = printable(error.message()) + "; trying again in " + human(pause);
        if (kind_ == Kind::json) {
            json::object object;
            object["at"] = clock_text("%Y-%m-%dT%H:%M:%SZ");
            object["event"] = "unreachable";
            object["detail"] = utf8(error.message());
            object["retryInMs"] = pause.count();
            return print(object);
        }
        if (kind_ == Kind::lines) return say(text);
        trouble_ = "! " + std::move(text) + " (what is below is old)";
        draw();
    }

    void reachable(milliseconds after) {
        trouble_.clear();
        const std::string text = "the store answers again, after " + human(after);
        if (kind_ == Kind::json) {
            json::object object;
            object["at"] = clock_text("%Y-%m-%dT%H:%M:%SZ");
            object["event"] = "reachable";
            object["afterMs"] = after.count();
            return print(object);
        }
        if (kind_ == Kind::lines) return say(text);
        remember(clock_text("%H:%M:%S") + "  " + text);
    }

private:
    void remember(std::string line) {
        events_.push_back(std::move(line));
        if (events_.size() > shown_events) events_.pop_front();
    }

    [[nodiscard]] std::string rows() const {
        std::vector<Row> rows{{"KEY", "HOLDER", "HELD FOR", "FREE IN", "FENCE", "IN LINE", "ID"}};
        for (const LockInfo& lock : locks_) {
            const std::string waiting = std::to_string(lock.waiter_count);
            if (lock.holders.empty())
                rows.push_back({lock.key.text(),
                                lock.problem.empty() ? "free" : "! " + printable(lock.problem), "-", "-", "-",
                                waiting, "-"});
            for (const HolderInfo& holder : lock.holders)
                rows.push_back({lock.key.text(), describe(holder.owner),
                                holder.held_for ? human(*holder.held_for) : "-",
                                holder.expires_in ? human(*holder.expires_in) : "never",
                                holder.fence ? std::to_string(holder.fence->value) : "-", waiting,
                                printable(holder.public_id)});
        }
        return table(rows);
    }

    /// All of it from the top, each line cut to the terminal's width and in as many as it has.
    void draw() {
        if (kind_ != Kind::table) return;
        winsize size{};
        if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0) size = {24, 80, 0, 0};
        const std::size_t bottom = events_.empty() ? 0 : events_.size() + 1;
        const std::size_t room = std::max<std::size_t>(size.ws_row, bottom + 6) - bottom - 3;
        std::string text = title_ + "\n" + trouble_ + "\n";
        const std::string all = rows();
        std::size_t begin = 0;
        for (std::size_t line = 0; begin < all.size(); ++line) {
            const std::size_t end = all.find('\n', begin);
            if (line + 1 == room && end + 1 < all.size()) {
                text += "... and more; --prefix narrows it\n";
                break;
            }
            text += all.substr(begin, end - begin) + "\n";
            begin = end + 1;
        }
        if (!events_.empty()) text += "\n";
        for (const std::string& event : events_) text += event + "\n";
        text = "\033[H\033[J" + cut(text, size.ws_col);
        if (text != drawn_) print(text);
        drawn_ = std::move(text);
    }

    static std::string cut(const std::string& text, std::size_t columns) {
        std::string out;
        std::size_t column = 0;
        for (const char c : text) {
            if (c == '\n') column = 0;
            const bool begins = (c & 0xC0) != 0x80 && c != '\n';
            if (begins) ++column;
            if (column <= columns) out += c;
        }
        return out;
    }

    const Kind kind_;
    const std::string title_;
    std::string trouble_;
    std::string drawn_;
    std::deque<std::string> events_;
    std::vector<LockInfo> locks_;
};

class WatchLoop {
public:
    WatchLoop(const Watched& watched, Screen& screen, Looker& looker, Events& events)
        : watched_(watched), screen_(screen), looker_(looker), events_(events) {}

    /// Until a signal; the exit code.
    int run() {
        looker_.start();
        for (;;) {
            const Events::Event event = events_.next();
            if (event.kind == Events::Kind::alarm && !looker_.busy()) looker_.start();
            if (event.kind == Events::Kind::signal) {
                if (const auto code = on_signal(event.signal)) return *code;
            }
            if (auto answer = looker_.take()) answered(*answer);
        }
    }

private:
    static std::optional<int> on_signal(int signal) {
        if (signal == SIGTSTP) stop_own_group(signal);
        if (signal == SIGINT) return exit_code::ok;
        if (signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT)
            return exit_code::signal_base + signal;
        return std::nullopt;
    }

    void answered(const Looker::Answer& answer) {
        const TimePoint now = BootClock::now();
        if (answer) {
            if (std::exchange(pause_, {}) > 0ms)
                screen_.reachable(std::chrono::duration_cast<milliseconds>(now - away_since_));
            screen_.show(*answer, seen_.look(*answer, now));
            return events_.alarm_at(now + watched_.interval);
        }
        // What somebody has to change first does not get better by trying.
        if (answer.error().fault == Fault::fatal && !(answer.error() == errc::unavailable))
            throw Failure(answer.error());
        if (pause_ == 0ms) away_since_ = now;
        pause_ = std::clamp(2 * pause_, std::min(watched_.interval, longest_pause), longest_pause);
        screen_.unreachable(answer.error(), pause_);
        events_.alarm_at(now + pause_);
    }

    const Watched& watched_;
    Screen& screen_;
    Looker& looker_;
    Events& events_;
    Seen seen_;
    milliseconds pause_{};
    TimePoint away_since_{};
};

Watched watched_of(const std::string& key, const std::optional<std::string>& prefix,
                   const std::optional<std::string>& interval) {
    Watched watched;
    if (!key.empty() && prefix)
        throw Failure(errc::invalid_argument, "KEY and --prefix exclude each other; give one of them");
    if (!key.empty()) {
        watched.key = value_or_fail(Key::parse(key));
        value_or_fail(watched.key->check());
    }
    if (prefix) watched.prefix = value_or_fail(Key::parse(*prefix)).bytes();
    if (interval) watched.interval = parse_duration("--interval", *interval, Least::more_than_zero);
    if (watched.interval < 100ms)
        throw Failure(errc::invalid_argument, "--interval: at least 100ms, to spare the store");
    return watched;
}

int perform(const Verb& verb, Call& call) {
    std::string key;
    std::optional<std::string> prefix;
    std::optional<std::string> interval;
    Common common;
    Syntax syntax(verb);
    syntax.positional("KEY", key, "This lock only", Syntax::Need::optional);
    syntax.option("--prefix", "PREFIX", prefix, "Only keys that begin so");
    syntax.option("--interval", "DURATION", interval, "Time between two looks; default 1s");
    syntax.common(common);
    if (const auto done = syntax.parse(call)) return *done;
    const Watched watched = watched_of(key, prefix, interval);
    Events events;
    const Client client = open_client(common, "dlock");
    const auto kind = common.json                           ? Screen::Kind::json
                      : terminal_columns(STDOUT_FILENO) > 0 ? Screen::Kind::table
                                                            : Screen::Kind::lines;
    Screen screen(kind, "dlock watch " + printable(chosen_store(common)) + ", every " +
                            human(watched.interval) + "; Ctrl-C ends it");
    Looker looker(client, watched, events);
    const int code = WatchLoop(watched, screen, looker, events).run();
    if (looker.busy()) ::_exit(code);  // it only reads; nobody waits for a store that is silent
    return code;
}

}  // namespace

const Verb watch_verb = {
    "watch", "watch [OPTIONS] [KEY]",
    "Show who holds what as it changes: grants, releases, expiries, the line.\n"
    "On a terminal a table that is redrawn, elsewhere a line an event. Ctrl-C ends it with 0.",
    "  dlock watch\n"
    "  dlock watch billing/close-month\n"
    "  dlock watch --prefix billing/ --interval 250ms --json | tee locks.log\n",
    perform};

}  // namespace dlock::cli
