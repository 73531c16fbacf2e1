// SPDX-License-Identifier: Apache-2.0
#include "engine/host.hpp"

#include "engine/asio_loop.hpp"
#include "engine/delivery.hpp"

namespace dlock::engine {

namespace {

class ThreadHost : public Host {
public:
    [[nodiscard]] store::Loop& loop() noexcept override { return loop_; }
    void deliver(store::Loop::Task task) override { delivery_.post(std::move(task)); }
    void stop() noexcept override {
        loop_.stop();
        delivery_.stop();
    }

private:
    AsioLoop loop_;
    Delivery delivery_;
};

}  // namespace

std::unique_ptr<Host> make_host() { return std::make_unique<ThreadHost>(); }

}  // namespace dlock::engine
