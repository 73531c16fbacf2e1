// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

namespace dlock::testing {

/// A TCP proxy on 127.0.0.1 that hurts what goes through it. It knows where Redis messages end, so that it
/// can lose exactly one. All calls act at once on the present connections, and on later ones until heal().
/// Any thread.
class FaultProxy {
public:
    enum class Way { to_server, to_client };

    enum class Framing {
        redis,  ///< messages are whole commands and replies
        none,   ///< every piece that arrives is a message; for TLS
    };

    /// Forwards to a port on 127.0.0.1.
    explicit FaultProxy(std::uint16_t target, Framing framing = Framing::redis);
    FaultProxy(const FaultProxy&) = delete;
    FaultProxy& operator=(const FaultProxy&) = delete;
    ~FaultProxy();

    [[nodiscard]] std::uint16_t port() const { return port_; }

    /// Resets every present connection; new ones go through.
    void cut();
    /// Resets present connections and refuses new ones.
    void refuse();
    /// Keeps back all bytes of one way, like a network that loses packets.
    void black_hole(Way way);
    /// Holds every byte of one way back for so long.
    void delay(Way way, std::chrono::milliseconds by);
    /// Cuts the connection in place of forwarding the n-th message (1: the next) of this way, counted over
    /// all connections. To the server: before its effect; to the client: after it.
    void lose(Way way, std::size_t nth);
    /// Ends every fault; what was kept back goes on its way.
    void heal();

    /// Messages forwarded or lost so far.
    [[nodiscard]] std::size_t messages(Way way) const;
    /// Connections accepted so far.
    [[nodiscard]] std::size_t accepted() const;
    /// Until so many bytes in all have arrived for this way, whether forwarded or kept back. False at the
    /// deadline.
    bool wait_for_bytes(Way way, std::size_t bytes) const;
    [[nodiscard]] std::size_t bytes(Way way) const;
    /// Until lose() has happened. False at the deadline.
    bool wait_for_loss() const;

private:
    struct Pair;
    struct Lane;
    struct Rules {
        bool hole = false;
        std::chrono::milliseconds by{0};
        std::size_t lose = 0;  ///< 0: none
        std::size_t messages = 0;
        std::size_t bytes = 0;
    };

    void run();
    void accept_one();
    void receive(Pair& pair, Way way);
    void forward(Pair& pair, Way way);
    void cut_all();
    void wake() const;
    Rules& rules(Way way) { return way == Way::to_server ? to_server_ : to_client_; }
    [[nodiscard]] const Rules& rules(Way way) const {
        return way == Way::to_server ? to_server_ : to_client_;
    }

    const std::uint16_t target_;
    const Framing framing_;
    std::uint16_t port_ = 0;
    int listener_ = -1;
    int event_ = -1;

    mutable std::mutex mutex_;
    mutable std::condition_variable changed_;
    std::list<std::unique_ptr<Pair>> pairs_;
    Rules to_server_;
    Rules to_client_;
    bool refusing_ = false;
    bool stopping_ = false;
    std::size_t accepted_ = 0;
    std::size_t losses_ = 0;
    std::thread thread_;
};

}  // namespace dlock::testing
