// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "engine/engine.hpp"
#include "sim/holder_check.hpp"

namespace dlock::sim {

/// One process with the engine under test and some threads that acquire, hold and release by chance.
class Client {
public:
    Client(World& world, Server& server, HolderCheck& check, const Plan& plan, const Weather& weather,
           int number);
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;
    ~Client();

    void crash();
    /// Ends it as a program does that has other things to do afterwards.
    void close();
    /// No new errands, and what is held is given back soon.
    void wind_down();
    /// Nothing is waited for or held.
    [[nodiscard]] bool idle() const;

    [[nodiscard]] int number() const noexcept { return number_; }
    [[nodiscard]] Process& process() noexcept { return *process_; }
    [[nodiscard]] Link& link() noexcept { return *link_; }

private:
    void rest(int thread);
    core::Mode choose_mode();
    void begin(int thread);
    void choose(AcquireOptions& options);
    void acquired(int thread, const ErrandPtr& errand, Result<Lease> result);
    void hold(int thread, const ErrandPtr& errand);
    void lost(int thread, const ErrandPtr& errand);
    void give_back(int thread, const ErrandPtr& errand);
    void release(int thread, const ErrandPtr& errand);
    void end(int thread, const ErrandPtr& errand);
    void gone();

    World& world_;
    HolderCheck& check_;
    const Plan& plan_;
    const int number_;
    std::shared_ptr<Process> process_;
    std::shared_ptr<Link> link_;
    std::shared_ptr<engine::Engine> engine_;
    std::vector<ErrandPtr> errands_;
    std::vector<int> left_;  ///< errands still to do, by thread
    bool winding_down_ = false;
};

}  // namespace dlock::sim
