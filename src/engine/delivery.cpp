// SPDX-License-Identifier: Apache-2.0
#include "engine/delivery.hpp"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

namespace dlock::engine {

using namespace std::chrono_literals;

namespace {
constexpr auto slow_task = 10ms;
constexpr std::size_t most_threads = 8;
}  // namespace

/// Outlives the Delivery while a thread that stopped it from inside still runs.
struct Delivery::Shared : std::enable_shared_from_this<Delivery::Shared> {
    using Clock = std::chrono::steady_clock;

    std::mutex mutex;
    std::condition_variable wake;
    std::deque<std::function<void()>> tasks;
    std::vector<std::thread> threads;
    std::size_t idle = 0;
    unsigned runner = 0;  ///< counts the changes of the thread that runs tasks; 0: nobody runs one
    unsigned runners = 0;
    Clock::time_point started;  ///< of the runner's task
    bool stopping = false;

    void run() {
        std::unique_lock lock(mutex);
        ++idle;
        for (;;) {
            if (tasks.empty()) {
                if (stopping) return;
                wake.wait(lock);
            } else if (runner != 0 && Clock::now() < started + slow_task) {
                wake.wait_until(lock, started + slow_task);  // stand by
            } else {
                run_one(lock);
            }
        }
    }

    /// Somebody must be there to take over what waits behind a slow task.
    void add_stand_by() {
        if (tasks.empty() || idle != 0 || stopping || threads.size() >= most_threads) return;
        threads.emplace_back([self = shared_from_this()] { self->run(); });
    }

    void run_one(std::unique_lock<std::mutex>& lock) {
        auto task = std::move(tasks.front());
        tasks.pop_front();
        const unsigned me = runner = ++runners;
        started = Clock::now();
        --idle;
        add_stand_by();
        lock.unlock();
        task();
        task = nullptr;
        lock.lock();
        ++idle;
        if (runner == me) runner = 0;
    }
};

Delivery::Delivery() : shared_(std::make_shared<Shared>()) {}

Delivery::~Delivery() { stop(); }

void Delivery::post(std::function<void()> task) {
    const std::lock_guard lock(shared_->mutex);
    shared_->tasks.push_back(std::move(task));
    shared_->add_stand_by();
    shared_->wake.notify_one();
}

void Delivery::stop() noexcept {
    std::vector<std::thread> threads;
    {
        const std::lock_guard lock(shared_->mutex);
        shared_->stopping = true;
        threads.swap(shared_->threads);
    }
    shared_->wake.notify_all();
    for (auto& thread : threads) {
        if (thread.get_id() == std::this_thread::get_id()) {
            thread.detach();
        } else {
            thread.join();
        }
    }
}

}  // namespace dlock::engine
