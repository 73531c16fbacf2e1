// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <sys/socket.h>

namespace dlock::net {

struct Address {
    sockaddr_storage storage{};
    socklen_t size = 0;
};

/// One name resolution that never blocks the caller. A numeric host is done at once. For a name getaddrinfo
/// runs on a detached thread, which owns nothing but shared state: a Lookup can be dropped at any time,
/// though the resolver may go on for seconds.
class Lookup {
public:
    Lookup(const std::string& host, std::uint16_t port);
    Lookup(const Lookup&) = delete;
    Lookup& operator=(const Lookup&) = delete;
    ~Lookup();

    /// Readable once finished.
    [[nodiscard]] int fd() const noexcept;
    [[nodiscard]] bool finished() const;
    /// After it finished: the addresses in the resolver's order; empty with `error()` set when there are
    /// none.
    [[nodiscard]] std::vector<Address> addresses() const;
    [[nodiscard]] std::string error() const;

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace dlock::net
