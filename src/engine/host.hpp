// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "store/loop.hpp"

namespace dlock::engine {

/// The threads under an engine. The real one has a loop thread and delivery threads; the simulation has none.
class Host {
public:
    virtual ~Host() = default;

    [[nodiscard]] virtual store::Loop& loop() noexcept = 0;
    /// Runs user code, off the loop's thread.
    virtual void deliver(store::Loop::Task task) = 0;
    /// Ends the loop's thread, then the delivery of what was given to deliver(). No task runs afterwards,
    /// except the one that called stop() itself. Once.
    virtual void stop() noexcept = 0;
};

std::unique_ptr<Host> make_host();

}  // namespace dlock::engine
