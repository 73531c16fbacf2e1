// SPDX-License-Identifier: Apache-2.0
#include "support/fault_proxy.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <deque>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

namespace dlock::testing {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto patience = std::chrono::seconds(20);

sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    return address;
}

/// The size of the first RESP message, 0 while it is not complete. What is no RESP counts as one message.
std::size_t message_size(std::string_view bytes) {
    const std::size_t line = bytes.find("\r\n");
    if (line == std::string_view::npos) return 0;
    if (bytes[0] != '$' && bytes[0] != '*') return line + 2;
    long number = 0;
    std::from_chars(bytes.data() + 1, bytes.data() + line, number);
    std::size_t size = line + 2;
    if (number < 0) return size;
    if (bytes[0] == '$') {
        size += static_cast<std::size_t>(number) + 2;
        return size <= bytes.size() ? size : 0;
    }
    for (; number > 0; --number) {
        const std::size_t element = message_size(bytes.substr(size));
        if (element == 0) return 0;
        size += element;
    }
    return size;
}

}  // namespace

/// One direction of one connection.
struct FaultProxy::Lane {
    struct Chunk {
        std::string bytes;
        Clock::time_point due;
    };
    std::string unparsed;
    std::deque<Chunk> ready;
    bool ended = false;   ///< nothing more comes in
    bool closed = false;  ///< the end was passed on
};

struct FaultProxy::Pair {
    int client = -1;
    int server = -1;
    bool dead = false;
    Lane to_server;
    Lane to_client;

    Pair() = default;
    Pair(const Pair&) = delete;
    Pair& operator=(const Pair&) = delete;
    ~Pair() {
        const linger reset{.l_onoff = 1, .l_linger = 0};
        for (const int fd : {client, server}) {
            if (dead) setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
            close(fd);
        }
    }
    Lane& lane(Way way) { return way == Way::to_server ? to_server : to_client; }
    [[nodiscard]] int source(Way way) const { return way == Way::to_server ? client : server; }
    [[nodiscard]] int sink(Way way) const { return way == Way::to_server ? server : client; }
};

FaultProxy::FaultProxy(std::uint16_t target, Framing framing) : target_(target), framing_(framing) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    event_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    if (bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(listener_, 128) != 0 ||
        getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
        throw std::runtime_error("the fault proxy cannot listen");
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { run(); });
}

FaultProxy::~FaultProxy() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    wake();
    thread_.join();
    pairs_.clear();
    close(listener_);
    close(event_);
}

void FaultProxy::wake() const { eventfd_write(event_, 1); }

void FaultProxy::cut_all() {
    for (const auto& pair : pairs_) pair->dead = true;
    pairs_.clear();
    wake();
}

void FaultProxy::cut() {
    const std::lock_guard lock(mutex_);
    cut_all();
}

void FaultProxy::refuse() {
    const std::lock_guard lock(mutex_);
    refusing_ = true;
    cut_all();
}

void FaultProxy::black_hole(Way way) {
    const std::lock_guard lock(mutex_);
    rules(way).hole = true;
}

void FaultProxy::delay(Way way, std::chrono::milliseconds by) {
    const std::lock_guard lock(mutex_);
    rules(way).by = by;
}

void FaultProxy::lose(Way way, std::size_t nth) {
    const std::lock_guard lock(mutex_);
    rules(way).lose = nth;
}

void FaultProxy::heal() {
    const std::lock_guard lock(mutex_);
    for (Rules* each : {&to_server_, &to_client_}) {
        each->hole = false;
        each->by = {};
        each->lose = 0;
    }
    refusing_ = false;
    wake();
}

std::size_t FaultProxy::messages(Way way) const {
    const std::lock_guard lock(mutex_);
    return rules(way).messages;
}

std::size_t FaultProxy::accepted() const {
    const std::lock_guard lock(mutex_);
    return accepted_;
}

std::size_t FaultProxy::bytes(Way way) const {
    const std::lock_guard lock(mutex_);
    return rules(way).bytes;
}

bool FaultProxy::wait_for_bytes(Way way, std::size_t bytes) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [&] { return rules(way).bytes >= bytes; });
}

bool FaultProxy::wait_for_loss() const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [&] { return losses_ > 0; });
}

void FaultProxy::accept_one() {
    const int client = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (client < 0) return;
    ++accepted_;
    changed_.notify_all();
    auto pair = std::make_unique<Pair>();
    pair->client = client;
    pair->server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = loopback(target_);
    pair->dead =
        refusing_ || connect(pair->server, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0;
    if (pair->dead) return;
    constexpr int on = 1;
    for (const int fd : {pair->client, pair->server})
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    pairs_.push_back(std::move(pair));
}

void FaultProxy::receive(Pair& pair, Way way) {
    Lane& lane = pair.lane(way);
    std::array<char, 16384> buffer;
    const ssize_t n = recv(pair.source(way), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (n == 0) lane.ended = true;
    if (n < 0 && errno != EAGAIN) pair.dead = true;
    if (n <= 0) return;
    Rules& rule = rules(way);
    rule.bytes += static_cast<std::size_t>(n);
    changed_.notify_all();
    lane.unparsed.append(buffer.data(), static_cast<std::size_t>(n));
    std::string whole;
    while (const std::size_t size =
               framing_ == Framing::redis ? message_size(lane.unparsed) : lane.unparsed.size()) {
        ++rule.messages;
        if (rule.lose > 0 && --rule.lose == 0) {
            pair.dead = true;
            ++losses_;
            break;
        }
        whole += lane.unparsed.substr(0, size);
        lane.unparsed.erase(0, size);
    }
    if (!whole.empty()) lane.ready.push_back({std::move(whole), Clock::now() + rule.by});
}

void FaultProxy::forward(Pair& pair, Way way) {
    Lane& lane = pair.lane(way);
    while (!rules(way).hole && !lane.ready.empty() && lane.ready.front().due <= Clock::now()) {
        std::string& bytes = lane.ready.front().bytes;
        const ssize_t n = send(pair.sink(way), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0) {
            if (errno != EAGAIN) pair.dead = true;
            return;
        }
        bytes.erase(0, static_cast<std::size_t>(n));
        if (bytes.empty()) lane.ready.pop_front();
    }
    if (lane.ended && lane.ready.empty() && !lane.closed) {
        lane.closed = true;
        shutdown(pair.sink(way), SHUT_WR);
    }
}

void FaultProxy::run() {
    constexpr std::array ways{Way::to_server, Way::to_client};
    std::unique_lock lock(mutex_);
    while (!stopping_) {
        std::vector<pollfd> fds{{listener_, POLLIN, 0}, {event_, POLLIN, 0}};
        int limit = -1;
        for (const auto& pair : pairs_) {
            for (const Way way : ways) {
                const Lane& lane = pair->lane(way);
                // A descriptor of -1 is passed over.
                fds.push_back({lane.ended ? -1 : pair->source(way), POLLIN, 0});
                if (!lane.ready.empty() && !rules(way).hole) limit = 1;
            }
        }
        lock.unlock();
        poll(fds.data(), fds.size(), limit);
        eventfd_t ignored = 0;
        eventfd_read(event_, &ignored);
        lock.lock();
        accept_one();
        for (const auto& pair : pairs_) {
            for (const Way way : ways) {
                if (!pair->lane(way).ended) receive(*pair, way);
                forward(*pair, way);
            }
        }
        std::erase_if(pairs_, [](const auto& pair) {
            return pair->dead || (pair->to_server.closed && pair->to_client.closed);
        });
    }
}

}  // namespace dlock::testing
