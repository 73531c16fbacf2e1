// SPDX-License-Identifier: Apache-2.0
#include "sim/process.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace dlock::sim {

using namespace std::chrono_literals;

namespace {

constexpr std::int64_t million = 1'000'000;

class SimTimer final : public store::Loop::Timer {
public:
    SimTimer(std::shared_ptr<Process> process, Task task)
        : process_(std::move(process)), state_(std::make_shared<State>(State{std::move(task), 0, false})) {}
    SimTimer(const SimTimer&) = delete;
    SimTimer& operator=(const SimTimer&) = delete;
    ~SimTimer() override { cancel_now(); }

    void set(TimePoint when) override {
        const unsigned number = ++state_->number;
        state_->set = true;
        process_->on_time(when, [state = state_, number] {
            if (!state->set || state->number != number) return;
            state->set = false;
            state->task();
        });
    }
    void cancel() override { cancel_now(); }

private:
    struct State {
        Task task;
        unsigned number;
        bool set;
    };
    void cancel_now() noexcept { state_->set = false; }

    std::shared_ptr<Process> process_;
    std::shared_ptr<State> state_;
};

class SimHost final : public engine::Host, private store::Loop {
public:
    explicit SimHost(std::shared_ptr<Process> process) : process_(std::move(process)) {}

    [[nodiscard]] store::Loop& loop() noexcept override { return *this; }
    void deliver(Task task) override { process_->run(Process::Thread::delivery, std::move(task)); }
    void stop() noexcept override { process_->finish(); }

private:
    [[nodiscard]] TimePoint now() const noexcept override { return process_->now(); }
    void post(Task task) override { process_->run(Process::Thread::loop, std::move(task)); }
    [[nodiscard]] bool here() const noexcept override { return true; }
    [[nodiscard]] std::unique_ptr<Timer> timer(Task task) override {
        return std::make_unique<SimTimer>(process_, std::move(task));
    }
    [[nodiscard]] std::unique_ptr<FdWatch> watch(int /*fd*/, Interest /*interest*/, Task /*ready*/) override {
        return nullptr;  // the simulated store has no descriptors
    }

    std::shared_ptr<Process> process_;
};

}  // namespace

TimePoint Process::own(TimePoint in_world) const noexcept {
    const auto since = in_world.time_since_epoch();
    return in_world + since * drift_ppm_ / million;
}

TimePoint Process::in_world(TimePoint own_time) const noexcept {
    const auto since = own_time.time_since_epoch();
    TimePoint at(since - since * drift_ppm_ / (million + drift_ppm_) - 2ns);
    while (own(at) < own_time) at += 1ns;
    return at;
}

TimePoint Process::now() const noexcept { return peeked_ ? TimePoint::min() : own(world_.now()); }

/// Until a thread that has work gets its turn.
nanoseconds Process::turn() noexcept { return world_.random.between(1us, 200us); }

void Process::run(Thread thread, Task task) {
    if (!alive()) return;
    queues_.at(static_cast<std::size_t>(thread)).push_back(std::move(task));
    world_.after(turn(), [self = shared_from_this(), thread] {
        self->unless_paused([self, thread] { self->one_of(thread); });
    });
}

void Process::later(nanoseconds delay, Task task) {
    world_.after(delay, [self = shared_from_this(), task = std::move(task)]() mutable {
        self->run(Thread::user, std::move(task));
    });
}

void Process::on_time(TimePoint when, Task task) {
    world_.at(std::max(in_world(when), world_.now()) + turn() / 4,
              [self = shared_from_this(), task = std::move(task)] { self->unless_paused(task); });
}

void Process::one_of(Thread thread) {
    auto& queue = queues_.at(static_cast<std::size_t>(thread));
    if (queue.empty()) return;
    const Task task = std::move(queue.front());
    queue.pop_front();
    task();
}

void Process::unless_paused(const Task& task) {
    if (!alive()) return;
    if (paused_) return when_resumed_.push_back(task);
    task();
}

void Process::pause(nanoseconds length) {
    if (!alive()) return;
    paused_until_ = std::max(paused_until_, world_.now() + length);
    if (std::exchange(paused_, true)) return;
    resume();
}

/// What was missed happens now, in whatever order.
void Process::resume() {
    world_.at(paused_until_, [self = shared_from_this()] {
        if (self->paused_until_ > self->world_.now()) return self->resume();
        self->paused_ = false;
        self->running_since_ = self->world_.now();
        for (const Task& task : std::exchange(self->when_resumed_, {})) {
            self->world_.after(self->turn(), [self, task] { self->unless_paused(task); });
        }
    });
}

void Process::finish() {
    auto& due = queues_.at(static_cast<std::size_t>(Thread::delivery));
    while (alive() && !due.empty()) one_of(Thread::delivery);
    state_ = alive() ? State::finished : state_;
    for (auto& queue : queues_) std::exchange(queue, {}).clear();
    when_resumed_.clear();
}

std::unique_ptr<engine::Host> make_host(std::shared_ptr<Process> process) {
    return std::make_unique<SimHost>(std::move(process));
}

}  // namespace dlock::sim
