// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "store/blocked_caller.hpp"
#include "store/sqlite/connection.hpp"
#include "store/sqlite/worker.hpp"

/// Callers of one process who want to write at the same time share a transaction, since the commit is what a
/// call costs: who finds nobody writing writes for all who stand in the queue by then, and gives the right to
/// write on.
namespace dlock::store::sqlite {

/// What one caller wants written.
class Write {
public:
    explicit Write(TimePoint at) noexcept : deadline(at) {}
    Write(const Write&) = delete;
    Write& operator=(const Write&) = delete;
    virtual ~Write() = default;

    /// Its statements, inside a transaction or without one; again when a try came to nothing. A failure of
    /// the database stays with `db`; whatever else is wrong is an outcome.
    virtual void perform(db::Sqlite& db) = 0;
    /// Once, when it is committed, or certainly not done: then with the error.
    virtual void answer(std::optional<Error> error) = 0;

    const TimePoint deadline;
    std::optional<Error> failure;           ///< why it was not done
    std::shared_ptr<BlockedCaller> caller;  ///< sleeps until this is answered, and may write for it; or null
};

class Writers final : public BlockedCaller::Source, public std::enable_shared_from_this<Writers> {
public:
    /// `wrote(frames)` is told after each turn how long the log is.
    Writers(Shared& shared, Worker& worker, std::function<void(int frames)> wrote)
        : shared_(shared), worker_(worker), wrote_(std::move(wrote)), connection_(shared) {}

    /// Any thread. Where somebody writes already, or on the loop's thread, it returns before the answer.
    void add(std::unique_ptr<Write> write);

    void read_for(const BlockedCaller& caller) override;

private:
    using Batch = std::vector<std::unique_ptr<Write>>;
    class Role;

    void take_turn();
    std::size_t waiting();
    void gather();
    Batch take();
    void write(Batch& batch);
    /// In one transaction. The error means that none of them was done.
    std::optional<Error> together(const Batch& batch);
    void alone(Write& write);
    void put_back(Batch& batch, const Error& error);
    void call_next();
    static void answer(const Batch& batch);

    Shared& shared_;
    Worker& worker_;
    const std::function<void(int)> wrote_;

    // Of whoever writes.
    Connection connection_;
    int crowd_ = 0;  ///< above 0: callers came together lately
    TimePoint next_gathering_{};

    std::mutex mutex_;
    std::deque<std::unique_ptr<Write>> queue_;
    bool writing_ = false;
};

}  // namespace dlock::store::sqlite
