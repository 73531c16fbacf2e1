// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

namespace dlock::engine {

/// Runs user code in order on a thread of its own, which is started at the first task. When a task runs for
/// over 10 ms, another thread (at most 8) takes the rest, so that one slow callback delays no loss signal.
class Delivery {
public:
    Delivery();
    ~Delivery();
    Delivery(const Delivery&) = delete;
    Delivery& operator=(const Delivery&) = delete;

    void post(std::function<void()> task);
    /// Runs what is queued, then ends the threads; called from a task it lets that one thread end by itself.
    void stop() noexcept;

private:
    struct Shared;
    std::shared_ptr<Shared> shared_;
};

}  // namespace dlock::engine
