// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/attempt_machine.hpp"
#include "dlock/client.hpp"
#include "engine/effects.hpp"
#include "engine/host.hpp"
#include "engine/lease_state.hpp"
#include "engine/schedule.hpp"
#include "store/store.hpp"

namespace dlock::engine {

struct Attempt;
struct KeyLine;
struct Withdrawal;
enum class WithdrawalUntil;

/// Performs what core decides, over one store. All state is under one lock that is held for arithmetic and
/// containers only: store calls, completions and user code run after it is given back (Effects).
class Engine : public std::enable_shared_from_this<Engine> {
public:
    using StoreFactory = std::function<Result<std::unique_ptr<store::Store>>(const store::StoreEnv&)>;

    static Result<std::shared_ptr<Engine>> create(const StoreFactory& factory, ClientOptions options,
                                                  Identity identity, std::shared_ptr<Observer> observer,
                                                  std::unique_ptr<Host> host = make_host());
    Engine(ClientOptions options, Identity identity, std::shared_ptr<Observer> observer,
           std::unique_ptr<Host> host);
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;
    ~Engine();

    /// In a forked child: nothing works and nothing is sent.
    [[nodiscard]] bool inert() const noexcept;
    [[nodiscard]] TimePoint now() const noexcept { return host_->loop().now(); }
    [[nodiscard]] const store::Capabilities& capabilities() const noexcept { return store_->capabilities(); }

    /// As what, and of how many.
    struct Wanted {
        core::Mode mode = core::Mode::exclusive;
        std::uint32_t permits = 0;
        /// Where it is set, the result of work that was done already is as good as the lock: it is here then
        /// when the acquisition ends with `contended`.
        std::shared_ptr<std::optional<store::Done>> result{};
    };
    using AcquireDone = std::function<void(Result<Lease>)>;
    void start_acquire(const Key& key, const Wanted& wanted, const AcquireOptions& options,
                       const Context& context, AcquireDone done, Lease::Deliver deliver);
    /// The same, waited for.
    Result<Lease> acquire(const Key& key, const Wanted& wanted, const AcquireOptions& options,
                          const Context& context);

    /// What is wrong with the arguments of start_acquire().
    [[nodiscard]] Result<void> check(const Key& key, const Wanted& wanted, const AcquireOptions& options,
                                     const Context& context) const;
    /// Runs user code where the caller wants it.
    void deliver(std::function<void()> task, Lease::Deliver how);

    /// By one of its Leases; `parted`: that one has let go while others went on, here or before.
    void start_release(const std::shared_ptr<LeaseState>& lease, std::atomic<bool>& parted, ReleaseDone done,
                       Lease::Deliver deliver);
    /// Of a Lease that is destroyed: release unless that was done or others go on, and wait for nothing.
    void drop(const std::shared_ptr<LeaseState>& lease) noexcept;
    /// One Lease more of the grant. False when it is not held any more.
    [[nodiscard]] bool join(LeaseState& lease);
    Result<void> convert(const std::shared_ptr<LeaseState>& lease, core::Mode mode);
    /// Has the release of a held lease leave this.
    Result<void> leave(LeaseState& lease, std::string result, std::chrono::milliseconds keep);
    /// By any client of the process.
    [[nodiscard]] static bool held_in_process(const Key& key);
    void detach(LeaseState& lease);
    [[nodiscard]] bool at_limit(const LeaseState& lease);
    [[nodiscard]] std::string lost_reason(const LeaseState& lease);
    void progressed(const std::shared_ptr<LeaseState>& lease);
    Result<void> renew_now(const std::shared_ptr<LeaseState>& lease);

    Result<Page> inspect(store::InspectRequest request);
    Result<Forced> force_release(const Key& key, std::string_view seen);
    Result<std::uint32_t> configure(store::ConfigureRequest request);
    Result<std::vector<Finding>> findings();
    Result<ScanPage> scan(const ScanRequest& request);
    Result<void> forget(const Key& key);
    Result<void> renew(const LeaseId& id, std::chrono::milliseconds lease);
    Result<void> release(const LeaseId& id);
    Result<std::shared_ptr<LeaseState>> adopt(const LeaseId& id, const AcquireOptions& options,
                                              const Context& context);
    Result<void> close();

private:
    friend struct Attempt;
    friend struct KeyLine;
    friend struct Withdrawal;
    friend class LeaseState;
    using LinePtr = std::shared_ptr<KeyLine>;
    using AttemptPtr = std::shared_ptr<Attempt>;
    using LeasePtr = std::shared_ptr<LeaseState>;
    using WithdrawalPtr = std::shared_ptr<Withdrawal>;

    /// Locks, lets `decide(now, effects)` do its part, sets the timer, unlocks, and runs the effects
    /// (with_lock.hpp).
    template <class Decide>
    void with_lock(Decide decide);
    /// For what began at that moment, so that the clock need not be read twice.
    template <class Decide>
    void with_lock_at(TimePoint at, Decide decide);
    void arm();
    void on_timer();

    // handles.cpp: the engines of the process
    static void enlist(const std::shared_ptr<Engine>& engine);
    [[nodiscard]] bool holds(const Key& key);

    // acquire.cpp: attempts and the local queue of a key
    [[nodiscard]] Result<void> check_acquire(const Key& key, const AcquireOptions& options,
                                             const Context& context) const;
    [[nodiscard]] Result<void> check_wanted(const Wanted& wanted, const AcquireOptions& options) const;
    [[nodiscard]] Result<void> check_leaves() const;
    [[nodiscard]] AttemptPtr make_attempt(const Key& key, const Wanted& wanted, const AcquireOptions& options,
                                          const Context& context, TimePoint at) const;
    [[nodiscard]] std::shared_ptr<const Owner> owner_of(const Context& context) const;
    LinePtr line_of(const Key& key);
    LinePtr line_for(const store::AcquireRequest& request);
    template <class Visit>
    void each_line(Visit visit) const;
    void enqueue(const AttemptPtr& attempt, TimePoint at, Effects& effects);
    [[nodiscard]] LeasePtr held_already(const Attempt& attempt) const;
    void nested(const AttemptPtr& attempt, const LeasePtr& outer, TimePoint at, Effects& effects);
    void next_head(const LinePtr& line, TimePoint at, Effects& effects);
    void apply(const AttemptPtr& attempt, core::AttemptMachine::Action action, TimePoint at,
               Effects& effects);
    void ask(const AttemptPtr& attempt, store::Route route, TimePoint at, Effects& effects);
    void answered(const AttemptPtr& attempt, unsigned call, store::AcquireAnswer answer);
    static core::AttemptMachine::Action feed_answer(Attempt& attempt, unsigned call,
                                                    store::AcquireAnswer& answer, TimePoint at);
    void take_out(const AttemptPtr& attempt, TimePoint at, Effects& effects);
    void hold(const AttemptPtr& attempt, TimePoint at, Effects& effects);
    void fail(const AttemptPtr& attempt, TimePoint at, Effects& effects);
    void give_up_ticket(const AttemptPtr& attempt, TimePoint at, Effects& effects);
    void leave_line(const AttemptPtr& attempt, TimePoint at, Effects& effects);
    void watch(const LinePtr& line, TimePoint at, Effects& effects);
    void unwatch(KeyLine& line, Effects& effects);
    void forget_if_idle(const LinePtr& line);
    void changed(const LinePtr& line, TimePoint at, Effects& effects);
    void look_answered(const LinePtr& line, const store::RenewAnswer& answer, TimePoint at, Effects& effects);
    void complete(const AttemptPtr& attempt, LeasePtr lease, Effects& effects);
    void tell_waiting(Attempt& attempt, Effects& effects);

    // adopt.cpp: from a grant to a lease
    LeasePtr make_lease(const store::AcquireRequest& request, const LeaseId::Secret& secret,
                        store::Granted granted, const AcquireOptions& options, TimePoint counted_from,
                        TimePoint now, Effects& effects);
    [[nodiscard]] bool has_lease_of(const store::AcquireRequest& request) const;
    Result<HolderInfo> holder_of(const Key& key, const store::GrantId& grant);

    // leases.cpp: renewal and loss
    struct Batch {
        std::vector<store::RenewItem> items;
        struct Target {
            std::weak_ptr<Timed> item;
            std::chrono::milliseconds lease;
        };
        std::vector<Target> targets;
        std::chrono::milliseconds shortest = std::chrono::milliseconds::max();
        std::chrono::milliseconds longest{0};
        void add(store::RenewItem item, const std::shared_ptr<Timed>& target);
    };
    void bring_along(TimePoint at, Effects& effects);
    void send_renewals(Batch& batch, store::Route route, TimePoint at, Effects& effects);
    void renewals_answered(const std::vector<Batch::Target>& targets, TimePoint sent,
                           std::vector<store::RenewAnswer> answers);
    void lease_answered(const LeasePtr& lease, const store::RenewAnswer& answer,
                        core::LeaseMachine::Sent sent, TimePoint at, Effects& effects);
    void lose(const LeasePtr& lease, const char* reason, Effects& effects);
    void forget_transaction(const LeaseState& lease);
    void end_lease(LeaseState& lease);
    /// One renewal, waited for.
    Result<store::RenewAnswer> ask_renewal(store::RenewItem item, TimePoint sent);
    static Result<void> renewed(const store::RenewAnswer& answer);

    // withdrawals.cpp: everything that takes something out of the store
    WithdrawalPtr withdraw(store::ReleaseRequest request, WithdrawalUntil until, TimePoint give_up,
                           TimePoint at, Effects& effects);
    void withdraw_grant(const LeaseState& lease, TimePoint at, Effects& effects);
    void send_withdrawal(const WithdrawalPtr& withdrawal, TimePoint at, Effects& effects);
    void withdrawal_answered(const WithdrawalPtr& withdrawal, unsigned call,
                             const Result<store::Released>& answer);
    void forget(const WithdrawalPtr& withdrawal);
    void begin_release(const LeasePtr& lease, TimePoint at, Effects& effects);
    static void leave_behind(LeaseState& lease, core::After& after, TimePoint at);
    static Result<void> released(const Result<store::Released>& answer);
    static Result<void> ended_by_us(const core::After& after);
    static Result<void> outcome_of(const LeaseState& lease);

    void tell(Event event, Effects& effects);
    void tell_of(const LeaseState& lease, Event::Kind kind, const char* detail, Effects& effects);
    template <class Answer, class Start>
    Result<Answer> blocking(std::chrono::milliseconds limit, errc silent, Start start);
    [[nodiscard]] Result<void> usable() const;
    [[nodiscard]] bool settled() const;
    void begin_close(TimePoint at, Effects& effects);
    void finish_close(TimePoint at, Effects& effects);

    const ClientOptions options_;
    const std::shared_ptr<Observer> observer_;
    const unsigned fork_generation_;
    std::shared_ptr<const Owner> owner_;  ///< of acquisitions without a context
    std::unique_ptr<Host> host_;
    std::unique_ptr<store::Store> store_;  ///< after the host: dies first
    std::unique_ptr<store::Loop::Timer> timer_;

    std::mutex mutex_;
    std::condition_variable idle_;  ///< close() waits here for the last answers
    Schedule schedule_;
    TimePoint armed_ = TimePoint::max();
    std::unordered_map<Key, LinePtr> lines_;   ///< of those who want a key alone
    std::unordered_set<LinePtr> lines_apart_;  ///< of readers and permits: each waits for itself
    std::vector<WithdrawalPtr> withdrawals_;   ///< in no order; each knows its place
    /// Leases whose transaction has an id: nested, it would wait for itself.
    std::unordered_multimap<Key, std::weak_ptr<Timed>> transactions_;
    /// Gathered while the timer's items run; then sent as one call a route.
    Batch usual_;
    Batch fresh_;
    enum class Life { open, closing, closed };
    Life life_ = Life::open;
};

}  // namespace dlock::engine
