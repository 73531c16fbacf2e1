// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdlib>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <unistd.h>

#include "cli/output.hpp"
#include "cli/syntax.hpp"
#include "cli/table.hpp"
#include "cli/text.hpp"
#include "cli/throwaway.hpp"
#include "cli/verbs.hpp"

namespace dlock::cli {
namespace {

namespace json = boost::json;
using namespace std::chrono_literals;

constexpr std::size_t rounds = 5;
constexpr std::size_t usual_columns = 100;

/// The steps of one lock's life, each the median of its rounds.
struct Trial {
    Millis acquire{}, renew{}, release{};
};

struct Report {
    std::string store;
    std::vector<Finding> findings;
    std::optional<Trial> trial;
    int exit = exit_code::ok;

    [[nodiscard]] long count(Severity severity) const {
        return std::count_if(findings.begin(), findings.end(),
                             [&](const Finding& each) { return each.severity == severity; });
    }
};

/// What the words of the error do not say already.
std::string fix_of(const Error& error, const std::string& store) {
    if (!store.starts_with("redis")) return {};
    if (error == errc::unavailable)
        return "see that the server runs, that host and port are right, and that no firewall is between";
    if (error == errc::unauthorized) return "see to user and password of the store URL, and to the rights";
    return {};
}

void add_failure(Report& report, const char* subject, const std::string& what, const Error& error) {
    report.findings.emplace_back(Severity::problem, subject, what + error.message(),
                                 fix_of(error, report.store));
    report.exit = exit_code_of(error.code);
}

Millis median(std::array<Millis, rounds> times) {
    std::sort(times.begin(), times.end());
    return times[rounds / 2];
}

/// Runs it and adds how long it took; the error when it failed.
template <class Step>
std::optional<Error> timed(Millis& time, Step step) {
    const TimePoint began = BootClock::now();
    auto result = step();
    time = BootClock::now() - began;
    if (!result) return result.error();
    return std::nullopt;
}

struct Failed {
    const char* step;
    Error error;
};

std::optional<Failed> one_round(Mutex mutex, std::size_t round,
                                std::array<std::array<Millis, rounds>, 3>& times) {
    AcquireOptions options;
    options.lease = 5s;
    options.renewing = Renewing::manual;
    options.wait = 0s;
    std::optional<Lease> lease;
    const auto acquire = [&]() -> Result<void> {
        auto got = mutex.try_acquire(options, {});
        if (!got) return got.error();
        lease.emplace(*std::move(got));
        return {};
    };
    if (auto error = timed(times[0][round], acquire)) return Failed{"acquiring", *std::move(error)};
    if (auto error = timed(times[1][round], [&] { return lease->renew(); }))
        return Failed{"renewing", *std::move(error)};
    if (auto error = timed(times[2][round], [&] { return lease->release(); }))
        return Failed{"releasing", *std::move(error)};
    return std::nullopt;
}

/// Locks a throw-away key a few times, and has the store forget it.
void try_out(const Client& client, const std::string& prefix, Report& report) {
    const Key key(throwaway_name(prefix));
    std::array<std::array<Millis, rounds>, 3> times{};
    for (std::size_t round = 0; round < rounds; ++round) {
        if (const auto failed = one_round(client.mutex(key), round, times)) {
            (void)client.forget(key);
            add_failure(report, "trial",
                        std::string(failed->step) + " a throw-away key failed: ", failed->error);
            if (failed->error == errc::unauthorized && prefix == throwaway_prefix)
                report.findings.back().fix +=
                    "; if this user may use some keys only, name their beginning: --prefix jobs/";
            return;
        }
    }
    report.trial = Trial{median(times[0]), median(times[1]), median(times[2])};
    std::string text = "acquire " + human(report.trial->acquire) + ", renew " + human(report.trial->renew) +
                       ", release " + human(report.trial->release) + " (median of 5)";
    const Result<void> forgotten = client.forget(key);
    if (forgotten)
        report.findings.emplace_back(Severity::ok, "trial", text + "; nothing is left of it");
    else
        report.findings.emplace_back(
            Severity::warning, "trial",
            text + "; the free key " + key.text() + " stays for an hour: " + forgotten.error().message());
}

/// A database that is only made by its first lock says so; looking must not make it. And one that cannot be
/// used has said why.
const Finding* no_trial(const std::vector<Finding>& findings) {
    const auto found = std::find_if(findings.begin(), findings.end(), [](const Finding& each) {
        return each.subject == "database" && each.severity != Severity::ok;
    });
    return found == findings.end() ? nullptr : &*found;
}

Report examine(const Common& common, const std::string& prefix) {
    Report report;
    report.store = chosen_store(common);
    const Client client = open_client(common, "dlock");
    Result<std::vector<Finding>> checked = client.check();
    if (!checked) {
        add_failure(report, "reach", "", checked.error());
        return report;
    }
    report.findings = *std::move(checked);
    if (const Finding* why = no_trial(report.findings))
        report.findings.emplace_back(Severity::note, "trial",
                                     why->severity == Severity::note
                                         ? "not done, since it would make the database"
                                         : "not done, since the database cannot be used");
    else
        try_out(client, prefix, report);
    if (report.exit == exit_code::ok && report.count(Severity::problem) > 0)
        report.exit = exit_code::configuration;
    return report;
}

json::object json_of(const Report& report) {
    json::array findings;
    for (const Finding& each : report.findings) {
        json::object row;
        row["severity"] = std::string(to_string(each.severity));
        row["subject"] = each.subject;
        row["text"] = utf8(each.text);
        row["fix"] = each.fix.empty() ? json::value(nullptr) : json::value(utf8(each.fix));
        findings.push_back(std::move(row));
    }
    json::object object;
    object["store"] = utf8(report.store);
    object["problems"] = report.count(Severity::problem);
    object["warnings"] = report.count(Severity::warning);
    object["findings"] = std::move(findings);
    object["trial"] = nullptr;
    if (report.trial) {
        json::object trial;
        trial["acquireMs"] = report.trial->acquire.count();
        trial["renewMs"] = report.trial->renew.count();
        trial["releaseMs"] = report.trial->release.count();
        object["trial"] = std::move(trial);
    }
    return object;
}

/// The word with its colour, as wide as the widest.
std::string mark(Severity severity, bool colours) {
    std::string word(to_string(severity));
    if (severity >= Severity::warning)
        std::transform(word.begin(), word.end(), word.begin(),
                       [](char c) { return static_cast<char>(c & ~0x20); });
    word.resize(9, ' ');
    if (!colours) return word;
    constexpr std::array codes{"\033[32m", "\033[36m", "\033[33m", "\033[1;31m"};
    return codes[static_cast<std::size_t>(severity)] + word + "\033[0m";
}

std::string counted(long count, const std::string& what) {
    return (count == 0 ? "no" : std::to_string(count)) + " " + what + (count == 1 ? "" : "s");
}

std::string text_of(const Report& report) {
    const char* no_colour = std::getenv("NO_COLOR");
    const std::size_t terminal = terminal_columns(STDOUT_FILENO);
    const bool colours = terminal > 0 && (no_colour == nullptr || *no_colour == '\0');
    std::size_t subject = 0;
    for (const Finding& each : report.findings) subject = std::max(subject, each.subject.size());
    const std::size_t indent = 9 + subject + 2;
    const Wrap wrap{std::max(terminal > 0 ? terminal : usual_columns, indent + 30), indent};
    std::string text = "store    " + printable(report.store) + "\n\n";
    for (const Finding& each : report.findings) {
        std::string name = each.subject;
        name.resize(subject + 2, ' ');
        text += mark(each.severity, colours) + name + wrapped(printable(each.text), wrap) + "\n";
        if (!each.fix.empty())
            text += std::string(indent, ' ') + wrapped("fix: " + printable(each.fix), wrap) + "\n";
    }
    return text + "\n" + counted(report.count(Severity::problem), "problem") + ", " +
           counted(report.count(Severity::warning), "warning") + "\n";
}

int perform(const Verb& verb, Call& call) {
    std::optional<std::string> prefix;
    Common common;
    Syntax syntax(verb);
    syntax.option("--prefix", "PREFIX", prefix,
                  "What the key of the trial begins with, for a user who may use some keys only");
    syntax.common(common);
    if (const auto done = syntax.parse(call)) return *done;
    const std::string begins = prefix ? value_or_fail(Key::parse(*prefix)).bytes() : throwaway_prefix;
    value_or_fail(Key(throwaway_name(begins)).check());
    const Report report = examine(common, begins);
    if (common.json)
        print(json_of(report));
    else
        print(text_of(report));
    return report.exit;
}

}  // namespace

const Verb doctor_verb = {
    "doctor", "doctor [OPTIONS]",
    "Check that the store keeps locks as it should, and say how to mend what does not.\n"
    "It changes nothing, but for a throw-away key that it locks, renews, releases and removes.",
    "  dlock doctor\n"
    "  dlock doctor --store redis://10.0.0.5\n"
    "  DLOCK_STORE_FILE=/etc/app/store dlock doctor --json\n"
    "  dlock doctor --prefix jobs/ || alert      0: no problem; 69, 77, 78: one or more\n",
    perform};

}  // namespace dlock::cli
