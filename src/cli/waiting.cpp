// SPDX-License-Identifier: Apache-2.0
#include "cli/waiting.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <mutex>

#include <unistd.h>

#include "cli/output.hpp"
#include "cli/text.hpp"
#include "cli/units.hpp"

namespace dlock::cli {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr auto first_message = 1s;
constexpr auto message_period =
    9s;  // a little less than the promised 10 s, since it takes a look at the store

/// "place 2 of 5 in line": our own ticket among those of the lock.
std::string place(const LockInfo& lock) {
    std::array<char, 256> host{};
    ::gethostname(host.data(), host.size() - 1);
    for (std::size_t i = 0; i < lock.waiters.size(); ++i)
        if (lock.waiters[i].owner.pid == ::getpid() && lock.waiters[i].owner.host == host.data())
            return "place " + std::to_string(i + 1) + " of " + std::to_string(lock.waiter_count) + " in line";
    return {};
}

/// One acquisition in progress. The answer comes on a thread of the client.
class Wait {
public:
    Wait(const Client& client, const Asking& asking, Events& events)
        : client_(client), asking_(asking), events_(events), began_(BootClock::now()) {}

    Lease finish() {
        start();
        events_.alarm_at(began_ + first_message);
        for (;;) {
            const Events::Event event = events_.next();
            if (event.kind == Events::Kind::alarm) tell();
            if (event.kind == Events::Kind::signal) on_signal(event.signal);
            if (std::optional<Result<Lease>> answer = take()) return settle(*std::move(answer));
        }
    }

private:
    void start() {
        Context context = asking_.context;
        context.stop = stop_.get_token();
        // `direct`: a free lock of a local store is had without waking another thread.
        client_.mutex(asking_.key)
            .start_acquire(
                asking_.options, std::move(context),
                [this](Result<Lease> answer) {
                    const std::lock_guard guard(guard_);
                    answer_.emplace(std::move(answer));
                    events_.notify();
                },
                Lease::Deliver::direct);
    }

    std::optional<Result<Lease>> take() {
        const std::lock_guard guard(guard_);
        return std::exchange(answer_, std::nullopt);
    }

    void on_signal(int signal) {
        if (signal == SIGTSTP) {
            stop_own_group(signal);
            return;
        }
        if (signal != SIGINT && signal != SIGTERM && signal != SIGHUP && signal != SIGQUIT) return;
        if (interrupted_by_ != 0) ::_exit(exit_code::signal_base + signal);  // asked twice: at once
        interrupted_by_ = signal;
        stop_.request_stop();
    }

    Lease settle(Result<Lease> answer) {
        if (interrupted_by_ != 0) {
            if (answer) (void)answer->release();
            throw Failure(exit_code::signal_base + interrupted_by_, "cancelled",
                          "interrupted while waiting for " + asking_.key.text());
        }
        if (answer) return *std::move(answer);
        Failure failure(answer.error());
        if (failure.exit() == exit_code::not_had) {
            add_holder(failure, client_, asking_.key, asking_.common);
            failure.set_exit(asking_.not_had_exit);
        }
        throw failure;
    }

    void tell() {
        events_.alarm_at(BootClock::now() + message_period);
        std::string line = "waiting for " + asking_.key.text();
        if (const Result<LockInfo> lock = client_.show(asking_.key)) {
            line += ": " + describe(*lock);
            if (const std::string where = place(*lock); !where.empty()) line += "; " + where;
        } else {
            line += ": " + printable(lock.error().message());
        }
        if (const auto wait = asking_.options.wait; wait && *wait != forever) {
            const auto gone = std::chrono::duration_cast<milliseconds>(BootClock::now() - began_);
            line += "; " + human(std::max(milliseconds::zero(), *wait - gone)) + " left to wait";
        }
        say(line);
    }

    const Client& client_;
    const Asking& asking_;
    Events& events_;
    const TimePoint began_;
    std::stop_source stop_;
    int interrupted_by_ = 0;
    std::mutex guard_;
    std::optional<Result<Lease>> answer_;
};

}  // namespace

void Asking::declare(Syntax& syntax) {
    syntax.positional("KEY", key_text_, "The lock; controls, % and bytes that are not UTF-8 as %XX");
    syntax.flag("-n,--nonblock", nonblock_, "Do not wait");
    syntax.option("-w", "SECONDS", seconds_, "Wait at most so long; decimals allowed");
    syntax.option("--wait", "DURATION", wait_, "The same with a unit: 500ms, 30s, 5m, 1h; default: no limit");
    syntax.option("--lease", "DURATION", lease_, "How long the lock outlives a crash; default 30s");
    syntax.option("-E,--conflict-exit-code", "CODE", not_had_text_,
                  "Exit code when the lock is not had; default 75");
    syntax.option("--note", "TEXT", note_, "Shown to those who wait or look");
    syntax.option("--biz", "ID", biz_, "Business id, stored with the lock");
    syntax.option("--txid", "ID", txid_, "Transaction or trace id, stored with the lock");
    syntax.common(common);
}

void Asking::check() {
    key = value_or_fail(Key::parse(key_text_));
    value_or_fail(key.check());
    if (nonblock_ + seconds_.has_value() + wait_.has_value() > 1)
        throw Failure(errc::invalid_argument, "-n, -w and --wait exclude each other; give one of them");
    options.wait = forever;
    if (nonblock_) options.wait = milliseconds::zero();
    if (seconds_) options.wait = parse_seconds("-w", *seconds_);
    if (wait_) options.wait = parse_duration("--wait", *wait_, Least::zero);
    if (lease_) options.lease = parse_duration("--lease", *lease_, Least::more_than_zero);
    if (not_had_text_) not_had_exit = parse_number("-E", *not_had_text_, 0, 255);
    context.note = note_.value_or("");
    context.biz_id = biz_.value_or("");
    context.txid = txid_.value_or("");
    value_or_fail(options.validate());
    value_or_fail(context.validate());
}

Lease acquire(const Client& client, const Asking& asking, Events& events) {
    return Wait(client, asking, events).finish();
}

}  // namespace dlock::cli
