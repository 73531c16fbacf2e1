// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace dlock::store::sqlite {

/// A thread for what may block, started by its first job. Renewals go before all else that has not begun.
class Worker {
public:
    using Job = std::function<void()>;
    enum class Urgency { renewal, usual };

    Worker() = default;
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;
    ~Worker() { stop(); }

    void add(Urgency urgency, Job job);
    /// Waits for the job that runs, drops the others.
    void stop();

private:
    void work();
    Job next();

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Job> renewals_;
    std::deque<Job> others_;
    bool stopping_ = false;
    std::thread thread_;
};

}  // namespace dlock::store::sqlite
