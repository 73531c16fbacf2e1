// SPDX-License-Identifier: Apache-2.0
#include "store/sqlite/wakeups.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <unordered_map>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace dlock::store::sqlite {
namespace {

constexpr std::size_t kept_early = 64;
constexpr int read_at_once = 64;

class Socket {
public:
    Socket() noexcept : fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {}
    ~Socket() {
        if (fd_ >= 0) close(fd_);
    }
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;
    [[nodiscard]] int fd() const noexcept { return fd_; }

private:
    int fd_;
};

struct Address {
    sockaddr_un name{};
    socklen_t size = 0;

    /// The abstract name: a zero byte, then the text.
    static std::optional<Address> of(const std::string& text) noexcept {
        Address address;
        if (text.empty() || text.size() >= sizeof address.name.sun_path) return std::nullopt;
        address.name.sun_family = AF_UNIX;
        std::memcpy(address.name.sun_path + 1, text.data(), text.size());
        address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
        return address;
    }
    [[nodiscard]] const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&name); }
};

}  // namespace

/// The receiving end, shared with the watches and with tasks on the loop, whichever goes last.
class Wakeups::Inbox : public std::enable_shared_from_this<Inbox> {
public:
    using Callback = std::shared_ptr<std::function<void(Change)>>;

    explicit Inbox(Loop& loop) : loop_(loop), address_("dlock/" + core::random_id<TicketId>().hex()) {}

    std::string address() {
        const std::lock_guard lock(mutex_);
        if (!socket_) bind();
        return bound_ ? address_ : std::string();
    }

    void add(const TicketId& ticket, Callback callback) {
        const std::lock_guard lock(mutex_);
        callbacks_[ticket] = callback;
        if (!watching_) {
            watching_ = true;
            loop_.post([self = shared_from_this()] { self->start(); });
        }
        // It was woken between its ticket's being written and this call.
        const auto early = std::find(early_.begin(), early_.end(), ticket);
        if (early == early_.end()) return;
        early_.erase(early);
        loop_.post([callback = std::move(callback)] { (*callback)(Change::perhaps_mine); });
    }

    void remove(const TicketId& ticket, const Callback& callback) {
        const std::lock_guard lock(mutex_);
        const auto found = callbacks_.find(ticket);
        if (found != callbacks_.end() && found->second == callback) callbacks_.erase(found);
    }

    /// Ends the watching on the loop's thread, as the loop wants it.
    void stop() {
        const auto end = [self = shared_from_this()] {
            const std::lock_guard lock(self->mutex_);
            self->stopped_ = true;
            self->callbacks_.clear();
            self->readable_.reset();
        };
        if (loop_.here())
            end();
        else
            loop_.post(end);
    }

private:
    void bind() {
        socket_ = std::make_unique<Socket>();
        const auto address = Address::of(address_);
        bound_ = socket_->fd() >= 0 && ::bind(socket_->fd(), address->get(), address->size) == 0;
    }

    void start() {
        const std::lock_guard lock(mutex_);
        if (!socket_) bind();
        if (!bound_ || stopped_) return;
        readable_ = loop_.watch(socket_->fd(), Loop::Interest::read, [weak = weak_from_this()] {
            if (const auto self = weak.lock()) self->receive();
        });
    }

    void receive() {
        for (int left = read_at_once; left > 0; --left) {
            TicketId ticket;
            const ssize_t size = recv(socket_->fd(), ticket.bytes.data(), ticket.bytes.size(), MSG_TRUNC);
            if (size < 0) return;
            if (static_cast<std::size_t>(size) == ticket.bytes.size()) tell(ticket);
        }
    }

    void tell(const TicketId& ticket) {
        Callback callback;
        {
            const std::lock_guard lock(mutex_);
            const auto found = callbacks_.find(ticket);
            if (found != callbacks_.end()) {
                callback = found->second;
            } else {
                early_.push_back(ticket);
                if (early_.size() > kept_early) early_.pop_front();
            }
        }
        if (callback) (*callback)(Change::perhaps_mine);
    }

    Loop& loop_;
    const std::string address_;
    std::mutex mutex_;
    std::unique_ptr<Socket> socket_;
    bool bound_ = false;
    bool watching_ = false;
    bool stopped_ = false;
    std::unique_ptr<Loop::FdWatch> readable_;  ///< loop thread only; goes before the socket
    std::unordered_map<TicketId, Callback> callbacks_;
    std::deque<TicketId> early_;  ///< woken before anybody watched
};

namespace {

/// Template on the inbox, since that is private to Wakeups.
template <class Inbox>
class TicketWatch final : public Watch {
public:
    TicketWatch(std::shared_ptr<Inbox> inbox, const TicketId& ticket, typename Inbox::Callback callback)
        : inbox_(std::move(inbox)), ticket_(ticket), callback_(std::move(callback)) {
        inbox_->add(ticket_, callback_);
    }
    ~TicketWatch() override { inbox_->remove(ticket_, callback_); }

private:
    std::shared_ptr<Inbox> inbox_;
    TicketId ticket_;
    typename Inbox::Callback callback_;
};

}  // namespace

/// Made at the first sending: most clients never wake anybody.
struct Wakeups::Sender {
    std::once_flag made;
    std::optional<Socket> socket;
};

Wakeups::Wakeups(Loop& loop) : inbox_(std::make_shared<Inbox>(loop)), sender_(std::make_unique<Sender>()) {}

Wakeups::~Wakeups() { inbox_->stop(); }

std::string Wakeups::address() { return inbox_->address(); }

std::unique_ptr<Watch> Wakeups::watch(const TicketId& ticket, std::function<void(Change)> changed) {
    auto callback = std::make_shared<std::function<void(Change)>>(std::move(changed));
    return std::make_unique<TicketWatch<Inbox>>(inbox_, ticket, std::move(callback));
}

void Wakeups::send(const std::string& text, const TicketId& ticket) noexcept {
    std::call_once(sender_->made, [this] { sender_->socket.emplace(); });
    const auto address = Address::of(text);
    if (!address || sender_->socket->fd() < 0) return;
    static_cast<void>(sendto(sender_->socket->fd(), ticket.bytes.data(), ticket.bytes.size(),
                             MSG_DONTWAIT | MSG_NOSIGNAL, address->get(), address->size));
}

}  // namespace dlock::store::sqlite
