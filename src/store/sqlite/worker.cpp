// SPDX-License-Identifier: Apache-2.0
#include "store/sqlite/worker.hpp"

#include <csignal>
#include <utility>

#include <pthread.h>

namespace dlock::store::sqlite {
namespace {

/// The thread takes no signal: they are for the threads of the program.
std::thread start_without_signals(std::function<void()> run) {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread thread(std::move(run));
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
}

}  // namespace

void Worker::add(Urgency urgency, Job job) {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    (urgency == Urgency::renewal ? renewals_ : others_).push_back(std::move(job));
    if (!thread_.joinable()) thread_ = start_without_signals([this] { work(); });
    changed_.notify_one();
}

void Worker::stop() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
        changed_.notify_one();
    }
    if (thread_.joinable()) thread_.join();
    renewals_.clear();
    others_.clear();
}

Worker::Job Worker::next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stopping_ || !renewals_.empty() || !others_.empty(); });
    if (stopping_) return nullptr;
    auto& queue = renewals_.empty() ? others_ : renewals_;
    Job job = std::move(queue.front());
    queue.pop_front();
    return job;
}

void Worker::work() {
    while (Job job = next()) job();
}

}  // namespace dlock::store::sqlite
