// SPDX-License-Identifier: Apache-2.0
#include "store/sqlite/sqlite_store.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <type_traits>
#include <utility>

#include "store/owner_json.hpp"
#include "store/sqlite/check.hpp"
#include "store/sqlite/connection.hpp"
#include "store/sqlite/inspect.hpp"
#include "store/sqlite/operations.hpp"
#include "store/sqlite/survey.hpp"
#include "store/sqlite/wakeups.hpp"
#include "store/sqlite/worker.hpp"
#include "store/sqlite/writers.hpp"
#include "store/upkeep.hpp"

namespace dlock::store {
namespace sqlite {
namespace {

constexpr int frames_to_copy = 1000;
constexpr std::chrono::minutes clean_up_every{1};
constexpr std::chrono::seconds chore_limit{5};

/// The connection for looking and tidying, for one caller at a time: none of the others waits for a slow one.
class Seat {
public:
    explicit Seat(Shared& shared) : connection(shared) {}

    /// The right to use it, when it became free in time.
    class Taken {
    public:
        Taken(Seat& seat, std::chrono::nanoseconds limit) : seat_(seat.take(limit) ? &seat : nullptr) {}
        ~Taken() {
            if (seat_ != nullptr) seat_->give_back();
        }
        Taken(const Taken&) = delete;
        Taken& operator=(const Taken&) = delete;
        explicit operator bool() const noexcept { return seat_ != nullptr; }

    private:
        Seat* seat_;
    };

    Connection connection;

private:
    // Not a timed mutex: the thread sanitizer of GCC 12 does not know how those wait.
    bool take(std::chrono::nanoseconds limit) {
        std::unique_lock lock(mutex_);
        if (taken_ && !freed_.wait_for(lock, limit, [this] { return !taken_; })) return false;
        taken_ = true;
        return true;
    }
    void give_back() {
        const std::lock_guard lock(mutex_);
        taken_ = false;
        freed_.notify_one();
    }

    std::mutex mutex_;
    std::condition_variable freed_;
    bool taken_ = false;
};

/// The owner of the last acquire, with its JSON. Of whoever writes.
class OwnerJson {
public:
    std::string_view of(const std::shared_ptr<const Owner>& asked) {
        if (asked != owner_) {
            json_ = to_json(*asked);
            owner_ = asked;
        }
        return json_;
    }

private:
    std::shared_ptr<const Owner> owner_;
    std::string json_;
};

/// One call of the seam as a write: `work(db)` gives its outcome.
template <class Outcome, class Work, class Answer>
class CallWrite final : public Write {
public:
    CallWrite(TimePoint at, Work work, Wakeups& wakeups, Completion<Answer> done)
        : Write(at), work_(std::move(work)), wakeups_(wakeups), done_(std::move(done)) {}

    void perform(db::Sqlite& db) override { outcome_.emplace(work_(db)); }
    void answer(std::optional<Error> error) override {
        if (error) return done_(*std::move(error));
        if constexpr (std::is_same_v<Outcome, Answer>) {
            done_(*std::move(outcome_));
        } else {
            for (const Wake& wake : outcome_->wake) wakeups_.send(wake.address, wake.ticket);
            done_(std::move(outcome_->answer));
        }
    }

private:
    Work work_;
    Wakeups& wakeups_;
    Completion<Answer> done_;
    std::optional<Outcome> outcome_;
};

class SqliteStore final : public Store, public Upkeep {
public:
    SqliteStore(Location location, Loop& loop, std::string boot)
        : shared_(std::move(location), loop, std::move(boot)),
          writers_(std::make_shared<Writers>(shared_, calls_, [this](int frames) { plan_copying(frames); })),
          renewals_(shared_),
          tidy_seat_(shared_),
          wakeups_(loop),
          next_clean_up_(first_clean_up(loop.now()).time_since_epoch().count()) {}

    ~SqliteStore() override {
        shared_.stopping.store(true, std::memory_order_relaxed);
        calls_.stop();
        chores_.stop();
    }

    [[nodiscard]] const Capabilities& capabilities() const noexcept override { return capabilities_; }

    void acquire(const AcquireRequest& request, Call call, Completion<AcquireAnswer> done) override {
        write(
            call,
            [this, request](db::Sqlite& db) {
                const Asker asker{.owner = owner_json_.of(request.subject->owner), .wakeups = wakeups_};
                plan_clean_up();  // here, where the database is: tidying makes none
                return sqlite::acquire(db, shared_, request, asker);
            },
            std::move(done));
    }

    void renew(std::vector<RenewItem> items, Call call, Completion<std::vector<RenewAnswer>> done) override {
        calls_.add(Worker::Urgency::renewal, [this, items = std::move(items), call, done = std::move(done)] {
            done(renew_now(items, call.deadline));
        });
    }

    void release(const ReleaseRequest& request, Call call, Completion<Result<Released>> done) override {
        write(
            call, [this, request](db::Sqlite& db) { return sqlite::release(db, shared_, request); },
            std::move(done));
    }

    [[nodiscard]] std::unique_ptr<Watch> watch(const SubjectPtr&, const TicketId& ticket,
                                               std::function<void(Change)> changed) override {
        return wakeups_.watch(ticket, std::move(changed));
    }

    void inspect(const InspectRequest& request, Call call, Completion<Result<Page>> done) override {
        aside(call, std::move(done), [this, request](Seat& seat, TimePoint deadline) {
            return sqlite::inspect(seat.connection, shared_, request, deadline);
        });
    }

    void check(Call call, Completion<Result<std::vector<Finding>>> done) override {
        aside(call, std::move(done), [this](Seat& seat, TimePoint deadline) {
            return sqlite::check(seat.connection, shared_, deadline);
        });
    }

    void scan(const ScanRequest& request, Call call, Completion<Result<ScanPage>> done) override {
        aside(call, std::move(done), [this, request](Seat& seat, TimePoint deadline) {
            return survey(seat.connection, shared_, request, deadline);
        });
    }

    void forget(const Key& key, Call call, Completion<Result<void>> done) override {
        aside(call, std::move(done),
              [key](Seat& seat, TimePoint deadline) { return forget_free(seat.connection, key, deadline); });
    }

    void force_release(const Key& key, const std::string& seen, Call call,
                       Completion<Result<Forced>> done) override {
        write(
            call, [this, key, seen](db::Sqlite& db) { return sqlite::force_release(db, shared_, key, seen); },
            std::move(done));
    }

    void configure(const ConfigureRequest& request, Call call, Completion<Result<Configured>> done) override {
        write(
            call, [this, request](db::Sqlite& db) { return sqlite::configure(db, shared_, request); },
            std::move(done));
    }

private:
    static TimePoint first_clean_up(TimePoint now) noexcept;

    template <class Work, class Answer>
    void write(Call call, Work work, Completion<Answer> done) {
        using Outcome = std::invoke_result_t<Work&, db::Sqlite&>;
        writers_->add(std::make_unique<CallWrite<Outcome, Work, Answer>>(call.deadline, std::move(work),
                                                                         wakeups_, std::move(done)));
    }

    /// Looking and tidying: on the caller's thread, or with the chores.
    template <class Answer, class Work>
    void aside(Call call, Completion<Answer> done, Work work) {
        auto job = [this, call, done = std::move(done), work = std::move(work)] {
            const auto left = call.deadline - shared_.loop.now();
            const Seat::Taken taken(tidy_seat_, std::max(left, left.zero()));
            done(taken ? work(tidy_seat_, call.deadline) : Answer(too_late()));
        };
        if (shared_.loop.here()) return chores_.add(Worker::Urgency::usual, std::move(job));
        job();
    }

    /// On the worker, which has this connection to itself.
    std::vector<RenewAnswer> renew_now(const std::vector<RenewItem>& items, TimePoint deadline) {
        auto answers = sqlite::renew(renewals_, shared_, items, deadline);
        plan_copying(renewals_.wal_frames());
        return answers;
    }

    void plan_copying(int frames);
    void plan_clean_up();

    Shared shared_;
    Capabilities capabilities_{.clock = Clock::boot};
    std::shared_ptr<Writers> writers_;
    OwnerJson owner_json_;
    Connection renewals_;
    Seat tidy_seat_;
    Wakeups wakeups_;
    std::atomic<int> copy_at_{frames_to_copy};
    std::atomic<TimePoint::rep> next_clean_up_;
    std::string clean_up_cursor_;  ///< of the chores
    Worker calls_;
    Worker chores_;  ///< what syncs or scans, so that renewals do not wait for it
};

/// Within a minute from the opening; at once in one of 16 clients, since many live for less than that.
TimePoint SqliteStore::first_clean_up(TimePoint now) noexcept {
    std::uint8_t random = 0;
    core::random_bytes(&random, 1);
    return now + (random - 16) * std::chrono::milliseconds(250);
}

void SqliteStore::plan_clean_up() {
    const TimePoint now = shared_.loop.now();
    TimePoint::rep due = next_clean_up_.load(std::memory_order_relaxed);
    if (now.time_since_epoch().count() < due) return;
    const TimePoint::rep then = (now + clean_up_every).time_since_epoch().count();
    if (!next_clean_up_.compare_exchange_strong(due, then, std::memory_order_relaxed)) return;
    chores_.add(Worker::Urgency::usual, [this] {
        if (const Seat::Taken taken(tidy_seat_, chore_limit); taken)
            clean_up(tidy_seat_.connection, shared_, clean_up_cursor_, shared_.loop.now() + chore_limit);
    });
}

void SqliteStore::plan_copying(int frames) {
    const int at = copy_at_.load(std::memory_order_relaxed);
    if (frames < at) {
        // The log began anew.
        if (frames < frames_to_copy && at > frames_to_copy)
            copy_at_.store(frames_to_copy, std::memory_order_relaxed);
        return;
    }
    copy_at_.store(frames + frames_to_copy, std::memory_order_relaxed);
    chores_.add(Worker::Urgency::usual, [this, frames] {
        if (const Seat::Taken taken(tidy_seat_, chore_limit); taken)
            tidy_seat_.connection.checkpoint(frames, shared_.loop.now() + chore_limit);
    });
}

}  // namespace
}  // namespace sqlite

Result<std::unique_ptr<Store>> open_sqlite(const Url& url, const StoreEnv& env) {
    auto location = sqlite::Location::from(url);
    if (!location) return std::move(location).error();
    auto boot = sqlite::boot_id();
    if (!boot) return std::move(boot).error();
    return std::unique_ptr<Store>(
        std::make_unique<sqlite::SqliteStore>(*std::move(location), env.loop, *std::move(boot)));
}

}  // namespace dlock::store
