// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "store/store.hpp"

namespace dlock::testing {

/// The calls of the seam that a plan can harm and count.
enum class Op { acquire, renew, release, inspect, force_release, configure };
inline constexpr std::size_t op_count = 6;

/// What happens to one call. "before": it never reaches the store. "after": it took effect, its answer is
/// harmed.
enum class Harm {
    none,
    refused,         ///< before; the store says that it certainly did nothing
    unknown_before,  ///< before; no answer, and the store's client gives up
    silent_before,   ///< before; the answer never comes at all
    unknown_after,   ///< after; no answer, and the store's client gives up
    silent_after,    ///< after; the answer never comes at all
    late,            ///< after; the answer comes `FaultPlan::delay` later
    doubled,         ///< the call takes effect twice, as a repeated packet would; one answer
};
inline constexpr std::array harms_of_one_call{Harm::refused,       Harm::unknown_before, Harm::silent_before,
                                              Harm::unknown_after, Harm::silent_after,   Harm::late,
                                              Harm::doubled};

std::string_view to_string(Harm harm) noexcept;

/// What a FaultStore does wrong; shared with the test, which may change it at any time.
class FaultPlan {
public:
    /// Called for each call with its kind and its number (from 1) among all that the rule has seen.
    using Rule = std::function<Harm(Op op, std::size_t number)>;

    /// Replaces the rule and counts from 1 again. Without a rule nothing is harmed.
    void set(Rule rule);
    /// Harms call number `n` only.
    void fail_nth(std::size_t n, Harm harm);
    /// How often the rule answered with a harm since it was set.
    [[nodiscard]] std::size_t fired() const;

    /// Calls since the start, by kind. The items of one renewal count as one call.
    [[nodiscard]] std::size_t calls(Op op) const { return calls_.at(static_cast<std::size_t>(op)); }
    /// Calls whose answers have been taken in.
    [[nodiscard]] std::size_t answered(Op op) const { return answered_.at(static_cast<std::size_t>(op)); }
    /// Until so many are. False at the deadline.
    bool wait_for_answered(Op op, std::size_t count);
    /// Wake-ups that stores pushed to their watchers.
    [[nodiscard]] std::size_t pushes() const { return pushes_; }

    /// While it answers true, a pushed wake-up is swallowed.
    void swallow_pushes(std::function<bool()> rule);

    std::chrono::milliseconds delay{250};  ///< of Harm::late; set it before the first call

private:
    friend class FaultStore;
    Harm next(Op op);
    void count_answer(Op op);
    [[nodiscard]] bool pushed();

    mutable std::mutex mutex_;
    std::condition_variable counted_;
    Rule rule_;
    std::function<bool()> swallow_;
    std::size_t number_ = 0;
    std::size_t fired_ = 0;
    std::array<std::atomic<std::size_t>, op_count> calls_{};
    std::array<std::atomic<std::size_t>, op_count> answered_{};
    std::atomic<std::size_t> pushes_{0};
};

/// Any store, with the faults of a plan.
class FaultStore final : public store::Store {
public:
    FaultStore(std::unique_ptr<store::Store> inner, std::shared_ptr<FaultPlan> plan, store::Loop& loop);

    [[nodiscard]] const store::Capabilities& capabilities() const noexcept override;
    void acquire(const store::AcquireRequest& request, store::Call call,
                 store::Completion<store::AcquireAnswer> done) override;
    void renew(std::vector<store::RenewItem> items, store::Call call,
               store::Completion<std::vector<store::RenewAnswer>> done) override;
    void release(const store::ReleaseRequest& request, store::Call call,
                 store::Completion<Result<store::Released>> done) override;
    [[nodiscard]] std::unique_ptr<store::Watch> watch(const store::SubjectPtr& subject,
                                                      const store::TicketId& ticket,
                                                      std::function<void(store::Change)> changed) override;
    void inspect(const store::InspectRequest& request, store::Call call,
                 store::Completion<Result<Page>> done) override;
    void force_release(const Key& key, const std::string& seen, store::Call call,
                       store::Completion<Result<Forced>> done) override;
    void configure(const store::ConfigureRequest& request, store::Call call,
                   store::Completion<Result<store::Configured>> done) override;
    void check(store::Call call, store::Completion<Result<std::vector<Finding>>> done) override;

private:
    template <class Answer>
    using Send = std::function<void(store::Completion<Answer>)>;

    /// Performs one call under the plan. `failed` makes the answer that stands for an error.
    template <class Answer>
    void perform(Op op, const Send<Answer>& send, store::Completion<Answer> done,
                 const std::function<Answer(Error)>& failed);
    template <class Answer>
    store::Completion<Answer> delayed(store::Completion<Answer> done);

    std::shared_ptr<FaultPlan> plan_;
    store::Loop& loop_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<store::Loop::Timer>> timers_;  ///< of late answers; gone before inner_
    std::unique_ptr<store::Store> inner_;
};

/// What an engine wants for opening a store: the one of `url`, with the faults of the plan.
std::function<Result<std::unique_ptr<store::Store>>(const store::StoreEnv&)> faulty(
    std::string url, std::shared_ptr<FaultPlan> plan);

}  // namespace dlock::testing
