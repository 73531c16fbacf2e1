// SPDX-License-Identifier: Apache-2.0
#include "cli/waiting.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <future>
#include <mutex>
#include <tuple>

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

/// Which options say how the key is used, for who used it otherwise.
Error with_hint(Error error) {
    if (error == errc::limit_differs)
        error.detail +=
            " (-s reads and -x writes a read_write key, --permits takes a permit, neither a mutex)";
    return error;
}

enum class Want { lock, lock_or_result };

/// One acquisition in progress. The answer comes on a thread of the client.
class Wait {
public:
    Wait(const Client& client, const Asking& asking, Events& events, Want want)
        : client_(client), asking_(asking), events_(events), want_(want), began_(BootClock::now()) {}

    OnceStart finish() {
        start();
        events_.alarm_at(began_ + first_message);
        for (;;) {
            const Events::Event event = events_.next();
            if (event.kind == Events::Kind::alarm) tell();
            if (event.kind == Events::Kind::signal) on_signal(event.signal);
            if (std::optional<Result<OnceStart>> answer = take()) return settle(*std::move(answer));
        }
    }

private:
    void start() {
        Context context = asking_.context;
        context.stop = stop_.get_token();
        if (want_ == Want::lock) return start_lock(std::move(context));
        client_.start_once(
            asking_.key, {.lock = asking_.options}, context,
            [this](Result<OnceStart> answer) { put(std::move(answer)); }, Lease::Deliver::direct);
    }

    /// `direct`: a free lock of a local store is had without waking another thread.
    void start_lock(Context context) {
        auto done = [this](Result<Lease> answer) {
            if (answer) return put(OnceStart(*std::move(answer)));
            put(std::move(answer).error());
        };
        const auto direct = Lease::Deliver::direct;
        const auto& [key, options] = std::tie(asking_.key, asking_.options);
        switch (asking_.as) {
            case Asking::As::mutex:
                return client_.mutex(key).start_acquire(options, std::move(context), done, direct);
            case Asking::As::writer:
                return client_.shared_mutex(key).start_acquire(options, std::move(context), done, direct);
            case Asking::As::reader:
                return client_.shared_mutex(key).start_acquire_shared(options, std::move(context), done,
                                                                      direct);
            case Asking::As::permit:
                return client_.semaphore(key, asking_.permits)
                    .start_acquire(options, std::move(context), done, direct);
        }
    }

    void put(Result<OnceStart> answer) {
        const std::lock_guard guard(guard_);
        answer_.emplace(std::move(answer));
        events_.notify();
    }

    std::optional<Result<OnceStart>> take() {
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

    OnceStart settle(Result<OnceStart> answer) {
        if (interrupted_by_ != 0) {
            if (answer)
                if (auto* lease = std::get_if<Lease>(&*answer)) (void)lease->release();
            throw Failure(exit_code::signal_base + interrupted_by_, "cancelled",
                          "interrupted while waiting for " + asking_.key.text());
        }
        if (answer) return *std::move(answer);
        Failure failure(with_hint(answer.error()));
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
    const Want want_;
    const TimePoint began_;
    std::stop_source stop_;
    int interrupted_by_ = 0;
    std::mutex guard_;
    std::optional<Result<OnceStart>> answer_;
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

void Asking::declare_mode(Syntax& syntax) {
    syntax.flag("-s,--shared", shared_, "As a reader, beside other readers; -x is the writer");
    syntax.flag("-x,--exclusive", exclusive_, "As the writer of a key that others read with -s");
    syntax.option("--permits", "N", permits_text_,
                  "One of N permits of the key; configured: of as many as it has");
}

void Asking::declare_after(Syntax& syntax) {
    syntax.option("--hold-off", "DURATION", hold_off_, "Nobody gets the lock for so long after the release");
    syntax.option("--at-least", "DURATION", at_least_,
                  "Nobody else gets the lock for so long from the grant on, even if it is released before");
}

void Asking::check_mode() {
    if (shared_ + exclusive_ + permits_text_.has_value() > 1)
        throw Failure(errc::invalid_argument, "-s, -x and --permits exclude each other; give one of them");
    if (shared_) as = As::reader;
    if (exclusive_) as = As::writer;
    if (!permits_text_) return;
    as = As::permit;
    if (*permits_text_ == "configured") return;
    permits = static_cast<std::uint32_t>(
        parse_number("--permits", *permits_text_, 1, static_cast<int>(Semaphore::most)));
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
    if (hold_off_) options.hold_off = parse_duration("--hold-off", *hold_off_, Least::zero);
    if (at_least_) options.at_least = parse_duration("--at-least", *at_least_, Least::zero);
    check_mode();
    context.note = note_.value_or("");
    context.biz_id = biz_.value_or("");
    context.txid = txid_.value_or("");
    value_or_fail(options.validate());
    value_or_fail(context.validate());
}

Lease acquire(const Client& client, const Asking& asking, Events& events) {
    return std::get<Lease>(Wait(client, asking, events, Want::lock).finish());
}

OnceStart acquire_or_result(const Client& client, const Asking& asking, Events& events) {
    return Wait(client, asking, events, Want::lock_or_result).finish();
}

std::optional<Outcome> look_for_result(const Client& client, const Asking& asking) {
    std::promise<std::optional<Outcome>> answer;
    client.start_once(
        asking.key, {.lock = asking.options}, asking.context,
        [&](Result<OnceStart> start) {
            auto* known = start ? std::get_if<Outcome>(&*start) : nullptr;
            answer.set_value(known != nullptr ? std::optional(std::move(*known)) : std::nullopt);
        },
        Lease::Deliver::direct);
    return answer.get_future().get();
}

}  // namespace dlock::cli
