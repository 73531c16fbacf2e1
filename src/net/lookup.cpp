// SPDX-License-Identifier: Apache-2.0
#include "net/lookup.hpp"

#include <algorithm>
#include <csignal>
#include <mutex>
#include <system_error>
#include <thread>

#include <netdb.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace dlock::net {

struct Lookup::State {
    std::mutex mutex;
    bool finished = false;
    std::vector<Address> addresses;
    std::string error;
    int event = -1;

    State() : event(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State() {
        if (event >= 0) close(event);
    }
    void finish(std::vector<Address> found, std::string problem) {
        {
            const std::lock_guard lock(mutex);
            finished = true;
            addresses = std::move(found);
            error = std::move(problem);
        }
        eventfd_write(event, 1);
    }
};

namespace {

int resolve(const std::string& host, std::uint16_t port, int flags, std::vector<Address>& found) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = flags | AI_NUMERICSERV;
    addrinfo* list = nullptr;
    const int rc = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
    if (rc != 0) return rc;
    for (const addrinfo* each = list; each != nullptr; each = each->ai_next) {
        Address address;
        std::copy_n(reinterpret_cast<const char*>(each->ai_addr), each->ai_addrlen,
                    reinterpret_cast<char*>(&address.storage));
        address.size = each->ai_addrlen;
        found.push_back(address);
    }
    freeaddrinfo(list);
    return 0;
}

std::string resolve_error(const std::string& host, int rc) {
    return "cannot resolve " + host + ": " + gai_strerror(rc);
}

}  // namespace

Lookup::Lookup(const std::string& host, std::uint16_t port) : state_(std::make_shared<State>()) {
    std::vector<Address> found;
    if (resolve(host, port, AI_NUMERICHOST, found) == 0) {
        state_->finish(std::move(found), {});
        return;
    }
    // The thread inherits a full signal mask, so that no handler of the program runs on it.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
        std::thread([state = state_, host, port] {
            std::vector<Address> addresses;
            const int rc = resolve(host, port, 0, addresses);
            state->finish(std::move(addresses), rc == 0 ? std::string() : resolve_error(host, rc));
        }).detach();
    } catch (const std::system_error& error) {
        state_->finish({}, std::string("no thread for the resolver: ") + error.what());
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Lookup::~Lookup() = default;

int Lookup::fd() const noexcept { return state_->event; }

bool Lookup::finished() const {
    const std::lock_guard lock(state_->mutex);
    return state_->finished;
}

std::vector<Address> Lookup::addresses() const {
    const std::lock_guard lock(state_->mutex);
    return state_->addresses;
}

std::string Lookup::error() const {
    const std::lock_guard lock(state_->mutex);
    return state_->error;
}

}  // namespace dlock::net
