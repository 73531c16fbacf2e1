// SPDX-License-Identifier: Apache-2.0
#include "store/url.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "core/text.hpp"

namespace dlock::store {
namespace {

// Messages name the part that is wrong, never the whole text: the password stands in it.
Error bad(std::string detail) { return {errc::invalid_argument, "store URL: " + std::move(detail)}; }

Result<std::string> decode(std::string_view part, std::string_view name) {
    std::optional<std::string> bytes = core::unescape(part);
    if (!bytes)
        return bad("a % in the " + std::string(name) + " has no two hexadecimal digits; write it as %25");
    if (bytes->find('\0') != std::string::npos) return bad("the " + std::string(name) + " has a zero byte");
    return *std::move(bytes);
}

/// The part before the separator; `rest` keeps what is behind it, or nothing.
std::string_view cut(std::string_view& rest, char separator) {
    const auto at = rest.find(separator);
    const std::string_view part = rest.substr(0, at);
    rest = at == std::string_view::npos ? std::string_view{} : rest.substr(at + 1);
    return part;
}

Result<std::string> parse_scheme(std::string_view text) {
    const std::string_view scheme = text.substr(0, text.find(':'));
    const auto allowed = [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '+' || c == '-' || c == '.';
    };
    if (scheme.size() == text.size() || scheme.empty() || !std::all_of(scheme.begin(), scheme.end(), allowed))
        return bad("it begins with no scheme; write it like sqlite:/path/locks.db or redis://host:6379");
    std::string lower(scheme);
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return lower;
}

Result<std::optional<std::uint16_t>> parse_port(std::string_view text, const std::string& host) {
    std::uint16_t port = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), port);
    if (failed != std::errc{} || end != text.data() + text.size() || port == 0)
        return bad("the port of " + core::escape(host) + " is no number from 1 to 65535");
    return std::optional(port);
}

Result<HostPort> parse_host(std::string_view text) {
    std::string_view host = text;
    std::string_view behind;
    if (text.starts_with('[')) {
        const auto end = text.find(']');
        if (end == std::string_view::npos) return bad("an IPv6 address lacks its closing ]");
        host = text.substr(1, end - 1);
        behind = text.substr(end + 1);
        if (!behind.empty() && behind.front() != ':')
            return bad("only a port may stand behind the ] of an address");
    } else if (const auto colon = text.find(':'); colon != std::string_view::npos) {
        host = text.substr(0, colon);
        behind = text.substr(colon);
        if (behind.find(':', 1) != std::string_view::npos) return bad("write an IPv6 address in [ ]");
    }
    auto decoded = decode(host, "host");
    if (!decoded) return std::move(decoded).error();
    const auto unprintable = [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 0x7F; };
    if (decoded->empty() || std::any_of(decoded->begin(), decoded->end(), unprintable))
        return bad("a host name is empty or has a blank in it; write them like h1:6379,h2:6379");
    HostPort result{.host = *std::move(decoded), .port = std::nullopt};
    if (behind.empty()) return result;
    auto port = parse_port(behind.substr(1), result.host);
    if (!port) return std::move(port).error();
    result.port = *port;
    return result;
}

Result<void> parse_authority(std::string_view text, Url& url) {
    if (const auto at = text.rfind('@'); at != std::string_view::npos) {
        std::string_view rest = text.substr(0, at);
        auto user = decode(cut(rest, ':'), "user");
        if (!user) return std::move(user).error();
        auto password = decode(rest, "password");
        if (!password) return std::move(password).error();
        url.user = *std::move(user);
        url.password = *std::move(password);
        text.remove_prefix(at + 1);
    }
    if (text.empty()) return {};
    if (text.ends_with(',')) return bad("a host name is missing behind the last comma");
    for (std::string_view rest = text; !rest.empty();) {
        auto host = parse_host(cut(rest, ','));
        if (!host) return std::move(host).error();
        url.hosts.push_back(*std::move(host));
    }
    return {};
}

Result<void> parse_params(std::string_view text, Url& url) {
    while (!text.empty()) {
        std::string_view value = cut(text, '&');
        if (value.empty()) continue;
        auto name = decode(cut(value, '='), "name of a parameter");
        if (!name) return std::move(name).error();
        auto decoded = decode(value, "parameter " + core::escape(*name));
        if (!decoded) return std::move(decoded).error();
        if (!url.params.emplace(*name, *std::move(decoded)).second)
            return bad("the parameter " + core::escape(*name) + " is given twice");
    }
    return {};
}

bool is_secret(std::string_view param) {
    return param.find("pass") != std::string_view::npos || param.find("secret") != std::string_view::npos ||
           param.find("token") != std::string_view::npos;
}

std::string authority(const Url& url) {
    std::string text;
    if (!url.user.empty() || !url.password.empty())
        text += core::escape(url.user) + (url.password.empty() ? "@" : ":***@");
    for (const HostPort& one : url.hosts) {
        if (&one != &url.hosts.front()) text += ',';
        const bool address6 = one.host.find(':') != std::string::npos;
        text += address6 ? "[" + core::escape(one.host) + "]" : core::escape(one.host);
        if (one.port) text += ":" + std::to_string(*one.port);
    }
    return text;
}

}  // namespace

Result<Url> Url::parse(std::string_view text) {
    auto scheme = parse_scheme(text);
    if (!scheme) return std::move(scheme).error();
    Url url;
    url.scheme = *std::move(scheme);
    std::string_view query = text.substr(url.scheme.size() + 1);
    std::string_view path = cut(query, '?');
    if (path.starts_with("//")) {
        path.remove_prefix(2);
        const std::string_view before_path = path.substr(0, path.find('/'));
        path.remove_prefix(before_path.size());
        if (auto parsed = parse_authority(before_path, url); !parsed) return std::move(parsed).error();
    }
    auto decoded = decode(path, "path");
    if (!decoded) return std::move(decoded).error();
    url.path = *std::move(decoded);
    if (auto parsed = parse_params(query, url); !parsed) return std::move(parsed).error();
    return url;
}

std::string Url::redacted() const {
    const std::string before_path = authority(*this);
    std::string text = scheme + (before_path.empty() ? ":" : "://") + before_path + core::escape(path);
    char separator = '?';
    for (const auto& [name, value] : params) {
        text += separator + core::escape(name) + "=" + (is_secret(name) ? "***" : core::escape(value));
        separator = '&';
    }
    return text;
}

Result<void> Url::allow_params(std::initializer_list<std::string_view> known) const {
    for (const auto& [name, value] : params) {
        if (std::find(known.begin(), known.end(), name) != known.end()) continue;
        std::string list;
        for (const std::string_view one : known) list.append(list.empty() ? "" : ", ").append(one);
        return bad("unknown parameter " + core::escape(name) + "; " + scheme +
                   (list.empty() ? " takes none" : " takes " + list));
    }
    return {};
}

}  // namespace dlock::store
