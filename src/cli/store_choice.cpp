// SPDX-License-Identifier: Apache-2.0
#include "cli/store_choice.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/files.hpp"
#include "cli/output.hpp"
#include "cli/text.hpp"
#include "store/url.hpp"

namespace dlock::cli {
namespace {

enum class Reach { everywhere, host, user };
struct Choice {
    std::string url;
    Reach reach = Reach::everywhere;
};

constexpr const char* host_folder = "/var/lib/dlock";

std::string environment(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? std::string{} : std::string(value);
}

/// A path as an SQLite URL: what would end or escape the path is escaped.
std::string sqlite_url(const std::string& path) {
    std::string url = "sqlite:";
    for (const char c : path) {
        if (c == '%')
            url += "%25";
        else if (c == '?')
            url += "%3F";
        else if (c == '#')
            url += "%23";
        else
            url += c;
    }
    return url;
}

/// Makes the folder and those above it, for this user only.
void make_folder(const std::string& path) {
    for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
        const std::string part = path.substr(0, end);
        if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST)
            throw Failure(exit_code::configuration, "configuration",
                          "cannot make the folder " + part + ": " + std::strerror(errno) +
                              "; name a store with --store or DLOCK_STORE");
        if (end == std::string::npos) return;
    }
}

std::string user_folder() {
    const std::string state = environment("XDG_STATE_HOME");
    if (state.starts_with('/')) return state + "/dlock";
    const std::string home = environment("HOME");
    if (home.starts_with('/')) return home + "/.local/state/dlock";
    throw Failure(exit_code::configuration, "configuration",
                  "no store: /var/lib/dlock cannot be written and neither XDG_STATE_HOME nor HOME is set; "
                  "name one with --store or DLOCK_STORE");
}

/// `user:password@`, or a parameter that is a password. Arguments are readable by every user of the host.
bool has_password(const std::string& url) {
    if (url.find("password=") != std::string::npos) return true;
    const auto begin = url.find("://");
    if (begin == std::string::npos) return false;
    const std::string authority = url.substr(begin + 3, url.find_first_of("/?", begin + 3) - begin - 3);
    const auto at = authority.rfind('@');
    const auto colon = authority.find(':');
    return at != std::string::npos && colon < at && colon + 1 < at;
}

Choice named(std::string url) {
    const bool sqlite = url.starts_with("sqlite:");
    return {std::move(url), sqlite ? Reach::host : Reach::everywhere};
}

Choice choose(const Common& common) {
    if (!common.store.empty()) {
        if (has_password(common.store))
            throw Failure(
                errc::invalid_argument,
                "--store: the URL holds a password, and every user of this host can read arguments; "
                "put it into DLOCK_STORE, or into a file named by DLOCK_STORE_FILE");
        return named(common.store);
    }
    if (std::string url = environment("DLOCK_STORE"); !url.empty()) return named(std::move(url));
    if (const std::string path = environment("DLOCK_STORE_FILE"); !path.empty()) {
        std::string url = read_small_file(path, "the file of DLOCK_STORE_FILE");
        if (url.empty())
            throw Failure(exit_code::configuration, "configuration",
                          "the file of DLOCK_STORE_FILE, " + path + ", is empty; put a store URL into it");
        return named(std::move(url));
    }
    if (::faccessat(AT_FDCWD, host_folder, W_OK | X_OK, AT_EACCESS) == 0)
        return {std::string("sqlite:") + host_folder + "/locks.db", Reach::host};
    const std::string folder = user_folder();
    make_folder(folder);
    return {sqlite_url(folder + "/locks.db"), Reach::user};
}

}  // namespace

Client open_client(const Common& common, const std::string& service, const ClientOptions& options) {
    const Choice choice = choose(common);
    Client client = value_or_fail(Client::open(choice.url, options, Identity(service)));
    if (choice.reach != Reach::everywhere && !common.local)
        say("the locks of " + printable(choice.url) +
            (choice.reach == Reach::host ? " are for this host only" : " are for this user only") +
            " (--local leaves out this line)");
    return client;
}

std::string chosen_store(const Common& common) {
    const std::string url = choose(common).url;
    const auto parsed = store::Url::parse(url);
    return parsed ? parsed->redacted() : url.substr(0, url.find(':'));
}

std::string free_command(const Common& common, const LockInfo& lock) {
    if (lock.holders.empty()) return {};
    std::string key = lock.key.text();
    if (key.starts_with('-')) key.replace(0, 1, "%2D");  // not an option
    std::string command =
        "dlock force-release " + shell_quote(key) + " --seen " + shell_quote(lock.holders.front().public_id);
    if (!common.store.empty()) command += " --store " + shell_quote(common.store);
    return command;
}

void add_holder(Failure& failure, const Client& client, const Key& key, const Common& common) {
    Result<LockInfo> lock = client.show(key);
    if (!lock) return;  // the failure itself is what counts
    failure.free_with = free_command(common, *lock);
    failure.seen = *std::move(lock);
}

}  // namespace dlock::cli
