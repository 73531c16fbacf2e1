// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include <sys/types.h>

#include "support/waiting.hpp"

namespace dlock::testing {

/// The test's side of a worker (see worker_loop.hpp): a process that can be killed and stopped, or a thread.
class Worker {
public:
    enum class As { process, thread };

    /// Starts it and opens its client; throws when that fails.
    Worker(As as, const std::string& url);
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;
    ~Worker();

    void send(const std::string& line);
    /// The first unread line that begins with these words, without them. Lines before it stay unread.
    /// Nothing at the deadline, or when the worker has ended.
    std::optional<std::string> expect(const std::string& words, milliseconds limit = patience);
    /// send and expect.
    std::optional<std::string> ask(const std::string& line, const std::string& words);
    /// Whether such a line lies unread.
    [[nodiscard]] bool said(const std::string& words);

    /// All unread lines, for the message of a failed test.
    [[nodiscard]] std::string unread();

    void kill();  ///< SIGKILL; returns when the process is gone
    void stop();  ///< SIGSTOP; returns when the process has stopped
    void resume();

    /// Sends the acquire and returns when it waits in line.
    bool queue_up(const std::string& slot, milliseconds lease, const Key& key);
    /// Acquires a lock that is free; the fence (0: the store has none), or nothing.
    std::optional<std::uint64_t> acquire(const std::string& slot, milliseconds lease, const Key& key);

private:
    void signal(int number) const;
    void start_process(int in, int out);
    void read_lines(int from);

    pid_t process_ = -1;
    int to_ = -1;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::string> lines_;
    bool ended_ = false;
    std::thread reader_;
    std::thread thread_;
};

}  // namespace dlock::testing
