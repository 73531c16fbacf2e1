// SPDX-License-Identifier: Apache-2.0
#include "store/redis/server.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>

namespace dlock::store::redis {
namespace {

constexpr std::string_view parameters = "layout, io, password_file; with rediss:// also ca, cert, key, sni";

Error bad(std::string text) { return {errc::invalid_argument, std::move(text)}; }

std::string param(const Url& url, const char* name) {
    const auto found = url.params.find(name);
    return found == url.params.end() ? std::string() : found->second;
}

Result<void> check_params(const Url& url) {
    const Result<void> known =
        url.scheme == "rediss"
            ? url.allow_params({"layout", "io", "password_file", "ca", "cert", "key", "sni"})
            : url.allow_params({"layout", "io", "password_file"});
    if (known) return {};
    return bad(known.error().detail + "; known here: " + std::string(parameters));
}

Result<std::string> read_password(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    if (!file || !std::getline(file, line))
        return bad("password_file=" + path + ": cannot read a line of it: " + std::strerror(errno));
    if (!line.empty() && line.back() == '\r') line.pop_back();
    return line;
}

Result<std::string> parse_db(const std::string& path) {
    std::string db = path.starts_with('/') ? path.substr(1) : path;
    const auto digit = [](char c) { return c >= '0' && c <= '9'; };
    if (db.size() > 6 || !std::all_of(db.begin(), db.end(), digit))
        return bad("'" + db + "' is not a database number; write for example redis://host:6379/0");
    if (std::all_of(db.begin(), db.end(), [](char c) { return c == '0'; })) db.clear();
    return db;
}

Result<void> set_tls(const Url& url, Server& server) {
    if (url.scheme != "rediss") return {};
    std::string problem;
    server.tls = net::TlsContext::make(
        {.ca = param(url, "ca"), .cert = param(url, "cert"), .key = param(url, "key")}, problem);
    server.tls_name = param(url, "sni");
    if (server.tls == nullptr) return bad(problem);
    return {};
}

Result<void> set_password(const Url& url, Server& server) {
    server.user = url.user;
    server.password = url.password;
    const std::string file = param(url, "password_file");
    if (file.empty()) return {};
    if (!url.password.empty()) return bad("both a password in the URL and password_file; give one of them");
    Result<std::string> read = read_password(file);
    if (!read) return read.error();
    server.password = *read;
    return {};
}

Result<void> set_layout(const Url& url, Server& server) {
    const std::string layout = param(url, "layout");
    if (layout == "plain")
        server.layout = Layout::plain;
    else if (!layout.empty() && layout != "dlock")
        return bad("layout=" + layout + " is unknown; known: dlock (default), plain");
    return {};
}

Result<void> set_io(const Url& url, Server& server) {
    const std::string io = param(url, "io");
    if (io == "thread")
        server.readers = Readers::loop;
    else if (!io.empty() && io != "callers")
        return bad("io=" + io + " is unknown; known: callers (default), thread");
    return {};
}

}  // namespace

std::string Candidate::text() const {
    const std::string name = host.find(':') == std::string::npos ? host : "[" + host + "]";
    return name + ":" + std::to_string(port);
}

Result<Server> parse_server(const Url& url) {
    Server server;
    if (Result<void> ok = check_params(url); !ok) return ok.error();
    for (const HostPort& host : url.hosts) {
        if (host.host.empty()) return bad("a host name is empty in " + url.redacted());
        server.candidates.push_back({.host = host.host, .port = host.port.value_or(6379)});
    }
    if (server.candidates.empty()) return bad("no host in " + url.redacted() + "; write redis://host:6379/0");
    Result<std::string> db = parse_db(url.path);
    if (!db) return db.error();
    server.db = *db;
    for (const auto set : {set_layout, set_io, set_password, set_tls})
        if (Result<void> ok = set(url, server); !ok) return ok.error();
    return server;
}

}  // namespace dlock::store::redis
