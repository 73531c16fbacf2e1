// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>

#include <openssl/ssl.h>

#include "net/lookup.hpp"
#include "net/tls.hpp"

namespace dlock::net {

enum class Io {
    done,        ///< finished; for a transfer: `bytes` were moved, at least one
    want_read,   ///< again when readable
    want_write,  ///< again when writable
    closed,      ///< the peer ended the stream
    failed,
    refused,  ///< TLS: certificate or protocol are not acceptable, so trying again is of no use
};

struct Transfer {
    Io io = Io::failed;
    std::size_t bytes = 0;
    std::string error;  ///< for failed and refused
};

struct StreamOptions {
    std::shared_ptr<const TlsContext> tls;  ///< null: plain
    std::string tls_name;                   ///< what the certificate must be valid for
    std::chrono::milliseconds
        unanswered{};  ///< how long sent bytes may stay unacknowledged before the stream fails
};

/// A byte stream over TCP, plain or TLS; nothing but wait_read() blocks. One thread may read while another
/// writes.
/// Closed by the destructor, without a word to the peer: nothing that was not sent is sent then.
class Stream {
public:
    /// Starts to connect; null with `error` where even that fails.
    static std::shared_ptr<Stream> start(const Address& address, const StreamOptions& options,
                                         std::string& error);
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    ~Stream();

    [[nodiscard]] int fd() const noexcept { return fd_; }

    /// Goes on connecting, then with the TLS handshake; `done` when both are.
    Transfer advance();
    Transfer read(char* to, std::size_t size);
    /// Lets wait_read() wait so long for bytes. Once, before other threads know the stream; not with TLS.
    void allow_waiting(std::chrono::milliseconds limit) noexcept;
    /// read() that waits: one system call where poll() and recv() would be two. `want_read` when the time is
    /// up or a signal came.
    Transfer wait_read(char* to, std::size_t size);
    /// After `want_write` of a TLS stream the next call must begin with the same bytes.
    Transfer write(const char* from, std::size_t size);

    /// Whether bytes wait inside, so that `fd()` may never become readable for them.
    [[nodiscard]] bool buffered() const;
    /// Ends both directions at once; the descriptor lives on until the destructor. Any thread.
    void shut_down() noexcept;

private:
    Stream(int fd, const StreamOptions& options);
    Transfer tls_result(int rc);
    Transfer receive(char* to, std::size_t size, int flags);

    struct Free {
        void operator()(SSL* session) const noexcept { SSL_free(session); }
    };
    const int fd_;
    bool connected_ = false;
    bool failed_ = false;  ///< after a fatal TLS error the session must not be touched again
    std::shared_ptr<const TlsContext> context_;
    std::unique_ptr<SSL, Free> tls_;
    mutable std::mutex tls_mutex_;  ///< one session must not read and write at once
};

}  // namespace dlock::net
