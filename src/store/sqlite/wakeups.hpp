// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "store/loop.hpp"
#include "store/store.hpp"

/// How the process that frees a lock wakes the one that is first in line: by a datagram to an address that
/// stands in the ticket, an abstract one (in no folder, gone with its socket), so that a waiter costs no
/// thread and no poll. It can be lost, and does not pass between network namespaces; waiters look by
/// themselves now and then.
namespace dlock::store::sqlite {

class Wakeups {
public:
    explicit Wakeups(Loop& loop);
    ~Wakeups();
    Wakeups(const Wakeups&) = delete;
    Wakeups& operator=(const Wakeups&) = delete;

    /// Where this client is woken, for its tickets; from then on what comes is kept. Empty when there can be
    /// no socket.
    std::string address();

    std::unique_ptr<Watch> watch(const TicketId& ticket, std::function<void(Change)> changed);

    /// Any thread; never blocks; whether it arrives is not known.
    void send(const std::string& address, const TicketId& ticket) noexcept;

private:
    class Inbox;
    struct Sender;
    std::shared_ptr<Inbox> inbox_;
    std::unique_ptr<Sender> sender_;
};

}  // namespace dlock::store::sqlite
