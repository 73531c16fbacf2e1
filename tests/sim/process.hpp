// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "engine/host.hpp"
#include "sim/world.hpp"

namespace dlock::sim {

/// One simulated process: its own clock, which drifts, and whether it runs, is stopped or dead.
class Process : public std::enable_shared_from_this<Process> {
public:
    /// Its threads. Each does its work in order; between them the order is by chance.
    enum class Thread { loop, delivery, user };

    Process(World& world, std::int64_t drift_ppm) : world_(world), drift_ppm_(drift_ppm) {}

    /// By its own clock. Long ago while somebody peeks: so that reading `held()` changes nothing.
    [[nodiscard]] TimePoint now() const noexcept;
    [[nodiscard]] TimePoint in_world(TimePoint own) const noexcept;

    void run(Thread thread, Task task);
    /// The user's code, after some time of the world.
    void later(nanoseconds delay, Task task);
    /// On the loop, not before `when` of its own clock.
    void on_time(TimePoint when, Task task);

    void pause(nanoseconds length);
    /// As kill -9: nothing of it runs any more and nothing leaves it.
    void kill() noexcept { state_ = State::dead; }
    /// The engine has ended its threads.
    void finish();

    [[nodiscard]] bool alive() const noexcept { return state_ == State::alive; }
    [[nodiscard]] bool killed() const noexcept { return state_ == State::dead; }
    [[nodiscard]] bool running() const noexcept { return alive() && !paused_; }
    [[nodiscard]] TimePoint running_since() const noexcept { return running_since_; }

    class Peek {
    public:
        explicit Peek(Process& process) noexcept : process_(process) { process_.peeked_ = true; }
        Peek(const Peek&) = delete;
        Peek& operator=(const Peek&) = delete;
        ~Peek() { process_.peeked_ = false; }

    private:
        Process& process_;
    };

private:
    enum class State { alive, dead, finished };
    [[nodiscard]] TimePoint own(TimePoint in_world) const noexcept;
    [[nodiscard]] nanoseconds turn() noexcept;
    void one_of(Thread thread);
    void unless_paused(const Task& task);
    void resume();

    World& world_;
    std::int64_t drift_ppm_;
    State state_ = State::alive;
    bool paused_ = false;
    bool peeked_ = false;
    TimePoint paused_until_{};
    TimePoint running_since_{};
    std::array<std::deque<Task>, 3> queues_;
    std::vector<Task> when_resumed_;
};

/// The threads under an engine: none, but turns of the simulated process.
std::unique_ptr<engine::Host> make_host(std::shared_ptr<Process> process);

}  // namespace dlock::sim
