// SPDX-License-Identifier: Apache-2.0
#include "net/stream.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <system_error>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/x509.h>
#include <sys/socket.h>
#include <unistd.h>

namespace dlock::net {
namespace {

std::string errno_text(int code) { return std::generic_category().message(code); }

Transfer failure(std::string error) { return {.io = Io::failed, .bytes = 0, .error = std::move(error)}; }
Transfer refusal(std::string error) { return {.io = Io::refused, .bytes = 0, .error = std::move(error)}; }
Transfer plain(Io io) { return {.io = io, .bytes = 0, .error = {}}; }

void set_option(int fd, int level, int name, int value) {
    setsockopt(fd, level, name, &value, sizeof value);  // advice: a socket without it still works
}

void tune(int fd, std::chrono::milliseconds unanswered) {
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 10);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
    if (unanswered.count() > 0)
        set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT,
                   static_cast<int>(std::min<std::int64_t>(unanswered.count(), INT_MAX)));
}

}  // namespace

std::shared_ptr<Stream> Stream::start(const Address& address, const StreamOptions& options,
                                      std::string& error) {
    const int fd = socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        error = "socket: " + errno_text(errno);
        return nullptr;
    }
    std::shared_ptr<Stream> stream(new Stream(fd, options));
    tune(fd, options.unanswered);
    if (options.tls != nullptr && stream->tls_ == nullptr) {
        error = "TLS session: " + tls_error();
        return nullptr;
    }
    if (connect(fd, reinterpret_cast<const sockaddr*>(&address.storage), address.size) != 0 &&
        errno != EINPROGRESS) {
        error = errno_text(errno);
        return nullptr;
    }
    return stream;
}

Stream::Stream(int fd, const StreamOptions& options)
    : fd_(fd),
      context_(options.tls),
      tls_(context_ != nullptr ? new_tls_session(*context_, options.tls_name, fd) : nullptr) {}

Stream::~Stream() {
    tls_.reset();
    close(fd_);
}

Transfer Stream::advance() {
    if (!connected_) {
        int code = 0;
        socklen_t size = sizeof code;
        getsockopt(fd_, SOL_SOCKET, SO_ERROR, &code, &size);
        if (code != 0) return failure(errno_text(code));
        sockaddr_storage peer{};
        socklen_t peer_size = sizeof peer;
        if (getpeername(fd_, reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0)
            return plain(Io::want_write);
        connected_ = true;
    }
    if (tls_ == nullptr) return plain(Io::done);
    const std::lock_guard lock(tls_mutex_);
    ERR_clear_error();
    return tls_result(SSL_do_handshake(tls_.get()));
}

Transfer Stream::read(char* to, std::size_t size) {
    if (tls_ != nullptr) {
        const std::lock_guard lock(tls_mutex_);
        if (failed_) return failure("the TLS session has failed");
        ERR_clear_error();
        return tls_result(SSL_read(tls_.get(), to, static_cast<int>(std::min<std::size_t>(size, INT_MAX))));
    }
    return receive(to, size, MSG_DONTWAIT);
}

void Stream::allow_waiting(std::chrono::milliseconds limit) noexcept {
    timeval time{};
    time.tv_sec = limit.count() / 1000;
    time.tv_usec = limit.count() % 1000 * 1000;
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    fcntl(fd_, F_SETFL, fcntl(fd_, F_GETFL) & ~O_NONBLOCK);
}

Transfer Stream::wait_read(char* to, std::size_t size) { return receive(to, size, 0); }

Transfer Stream::receive(char* to, std::size_t size, int flags) {
    const ssize_t n = recv(fd_, to, size, flags);
    if (n > 0) return {.io = Io::done, .bytes = static_cast<std::size_t>(n), .error = {}};
    if (n == 0) return plain(Io::closed);
    return errno == EAGAIN || errno == EINTR ? plain(Io::want_read) : failure(errno_text(errno));
}

Transfer Stream::write(const char* from, std::size_t size) {
    if (tls_ != nullptr) {
        const std::lock_guard lock(tls_mutex_);
        if (failed_) return failure("the TLS session has failed");
        ERR_clear_error();
        return tls_result(
            SSL_write(tls_.get(), from, static_cast<int>(std::min<std::size_t>(size, INT_MAX))));
    }
    ssize_t n = 0;
    do {
        n = send(fd_, from, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    if (n >= 0) return {.io = Io::done, .bytes = static_cast<std::size_t>(n), .error = {}};
    return errno == EAGAIN ? plain(Io::want_write) : failure(errno_text(errno));
}

Transfer Stream::tls_result(int rc) {
    if (rc > 0) return {.io = Io::done, .bytes = static_cast<std::size_t>(rc), .error = {}};
    const int saved_errno = errno;
    switch (SSL_get_error(tls_.get(), rc)) {
        case SSL_ERROR_WANT_READ:
            return plain(Io::want_read);
        case SSL_ERROR_WANT_WRITE:
            return plain(Io::want_write);
        case SSL_ERROR_ZERO_RETURN:
            failed_ = true;
            return plain(Io::closed);
        case SSL_ERROR_SYSCALL:
            failed_ = true;
            if (ERR_peek_error() != 0) return failure(tls_error());
            return saved_errno == 0 ? plain(Io::closed) : failure(errno_text(saved_errno));
        default:
            break;
    }
    failed_ = true;
    const unsigned long code = ERR_peek_error();
    if (ERR_GET_REASON(code) == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
        ERR_clear_error();
        return plain(Io::closed);
    }
    const long verdict = SSL_get_verify_result(tls_.get());
    if (verdict != X509_V_OK) {
        ERR_clear_error();
        return refusal(std::string("certificate refused: ") + X509_verify_cert_error_string(verdict));
    }
    return refusal("TLS: " + tls_error());
}

bool Stream::buffered() const {
    if (tls_ == nullptr) return false;
    const std::lock_guard lock(tls_mutex_);
    return !failed_ && SSL_pending(tls_.get()) > 0;
}

void Stream::shut_down() noexcept { shutdown(fd_, SHUT_RDWR); }

}  // namespace dlock::net
