// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include <openssl/ssl.h>

namespace dlock::net {

/// PEM files. Empty: for `ca` the system's certificates, for the others no client certificate.
struct TlsFiles {
    std::string ca;    ///< a file, or a folder in OpenSSL's form
    std::string cert;  ///< a client certificate with its chain
    std::string key;
};

/// What all TLS connections to one service share. Peers are always verified; TLS 1.2 at least. Immutable; any
/// thread.
class TlsContext {
public:
    /// Reads the files. Null, with `error` saying which file is bad and why.
    static std::shared_ptr<const TlsContext> make(const TlsFiles& files, std::string& error);

    [[nodiscard]] SSL_CTX* native() const noexcept { return context_.get(); }

private:
    struct Free {
        void operator()(SSL_CTX* context) const noexcept { SSL_CTX_free(context); }
    };
    std::unique_ptr<SSL_CTX, Free> context_;
};

/// The oldest error in OpenSSL's queue of this thread as text; empties the queue.
std::string tls_error();

/// A client session on a non-blocking socket that does not belong to it. The peer's certificate must be valid
/// for `name` (a host name or an address), which is also sent as server name. Null when OpenSSL has no
/// memory.
SSL* new_tls_session(const TlsContext& context, const std::string& name, int fd);

}  // namespace dlock::net
