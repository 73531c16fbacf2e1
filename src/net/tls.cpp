// SPDX-License-Identifier: Apache-2.0
#include "net/tls.hpp"

#include <cerrno>
#include <cstdint>

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <sys/stat.h>

namespace dlock::net {
namespace {

int socket_of(BIO* bio) { return static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio))); }

int bio_write(BIO* bio, const char* data, int size) {
    BIO_clear_retry_flags(bio);
    const ssize_t n = send(socket_of(bio), data, static_cast<std::size_t>(size), MSG_NOSIGNAL);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
    return static_cast<int>(n);
}

int bio_read(BIO* bio, char* data, int size) {
    BIO_clear_retry_flags(bio);
    const ssize_t n = recv(socket_of(bio), data, static_cast<std::size_t>(size), 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
    if (n == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
    return static_cast<int>(n);
}

long bio_ctrl(BIO* bio, int command, long, void*) {
    if (command == BIO_CTRL_FLUSH) return 1;
    if (command == BIO_CTRL_EOF) return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
    return 0;
}

/// OpenSSL's own socket BIO uses write(2), which would end a program by SIGPIPE.
const BIO_METHOD* socket_bio() {
    static const BIO_METHOD* const method = [] {
        BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "dlock socket");
        BIO_meth_set_write(made, bio_write);
        BIO_meth_set_read(made, bio_read);
        BIO_meth_set_ctrl(made, bio_ctrl);
        return made;
    }();
    return method;
}

bool is_address(const std::string& name) {
    in6_addr bytes;
    return inet_pton(AF_INET, name.c_str(), &bytes) == 1 || inet_pton(AF_INET6, name.c_str(), &bytes) == 1;
}

/// SSL_set_tlsext_host_name without its cast.
bool send_name(SSL* session, std::string name) {
    return SSL_ctrl(session, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, name.data()) == 1;
}

bool load_ca(SSL_CTX* context, const std::string& ca) {
    if (ca.empty()) return SSL_CTX_set_default_verify_paths(context) == 1;
    struct stat info {};
    if (stat(ca.c_str(), &info) == 0 && S_ISDIR(info.st_mode))
        return SSL_CTX_load_verify_dir(context, ca.c_str()) == 1;
    return SSL_CTX_load_verify_file(context, ca.c_str()) == 1;
}

}  // namespace

std::string tls_error() {
    const unsigned long code = ERR_get_error();
    ERR_clear_error();
    if (code == 0) return "unknown TLS error";
    const char* reason = ERR_reason_error_string(code);
    return reason != nullptr ? reason : "TLS error " + std::to_string(code);
}

std::shared_ptr<const TlsContext> TlsContext::make(const TlsFiles& files, std::string& error) {
    ERR_clear_error();
    auto made = std::make_shared<TlsContext>();
    made->context_.reset(SSL_CTX_new(TLS_client_method()));
    SSL_CTX* context = made->context_.get();
    const auto bad = [&error](const std::string& what) {
        error = what + ": " + tls_error();
        return nullptr;
    };
    if (context == nullptr) return bad("no TLS context");
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                  SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
    if (!load_ca(context, files.ca)) return bad("cannot read the certificates of ca=" + files.ca);
    if (!files.cert.empty() && SSL_CTX_use_certificate_chain_file(context, files.cert.c_str()) != 1)
        return bad("cannot read cert=" + files.cert);
    const std::string& key = files.key.empty() ? files.cert : files.key;
    if (!key.empty() && SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) != 1)
        return bad("cannot use key=" + key);
    return made;
}

SSL* new_tls_session(const TlsContext& context, const std::string& name, int fd) {
    SSL* session = SSL_new(context.native());
    BIO* bio = session != nullptr ? BIO_new(socket_bio()) : nullptr;
    if (bio == nullptr) {
        SSL_free(session);
        return nullptr;
    }
    BIO_set_data(bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)));
    BIO_set_init(bio, 1);
    SSL_set_bio(session, bio, bio);
    X509_VERIFY_PARAM* verify = SSL_get0_param(session);
    X509_VERIFY_PARAM_set_hostflags(verify, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    const bool named = is_address(name) ? X509_VERIFY_PARAM_set1_ip_asc(verify, name.c_str()) == 1
                                        : send_name(session, name) &&
                                              X509_VERIFY_PARAM_set1_host(verify, name.c_str(), 0) == 1;
    if (!named) {  // never a session that would accept any name
        SSL_free(session);
        return nullptr;
    }
    SSL_set_connect_state(session);
    return session;
}

}  // namespace dlock::net
