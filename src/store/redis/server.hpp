// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dlock/result.hpp"
#include "net/tls.hpp"
#include "store/url.hpp"

namespace dlock::store::redis {

struct Candidate {
    std::string host;
    std::uint16_t port = 6379;
    [[nodiscard]] std::string text() const;
};

enum class Layout { dlock, plain };

/// Who reads a connection.
enum class Readers {
    callers,  ///< a blocked caller, while one has a request unanswered; else the loop's thread
    loop,     ///< the loop's thread
};

/// Where the server is and how to speak to it, from the URL
///
///     redis://[user[:password]@]host[:port][,host...][/db]
///     rediss://...   with TLS; certificate and host name are always checked
///
/// Several hosts are candidates of one server: the one that says it is the primary is used.
struct Server {
    std::vector<Candidate> candidates;
    std::string user;
    std::string password;
    std::string db;  ///< decimal digits; empty: 0
    Layout layout = Layout::dlock;
    Readers readers = Readers::callers;          ///< of acquires and releases; `io=thread`: the loop
    std::shared_ptr<const net::TlsContext> tls;  ///< null: plain TCP
    std::string tls_name;                        ///< empty: the candidate's host
};

/// Checks everything and reads the password and certificate files. `invalid_argument` names the field.
Result<Server> parse_server(const Url& url);

}  // namespace dlock::store::redis
