// SPDX-License-Identifier: Apache-2.0
#include "cli/output.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <fcntl.h>
#include <unistd.h>

#include "cli/files.hpp"
#include "cli/text.hpp"

namespace dlock::cli {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;

json::value json_of(const std::optional<milliseconds>& duration) {
    if (!duration) return nullptr;
    return duration->count();
}

void add(json::object& object, const Owner& owner) {
    object["service"] = utf8(owner.service);
    object["host"] = utf8(owner.host);
    object["pid"] = owner.pid;
    object["instance"] = utf8(owner.instance);
    object["bizId"] = utf8(owner.biz_id);
    object["txid"] = utf8(owner.txid);
    object["note"] = utf8(owner.note);
}

json::object json_of(const WaiterInfo& waiter) {
    json::object object;
    object["mode"] = utf8(waiter.mode);
    add(object, waiter.owner);
    object["waitedForMs"] = json_of(waiter.waited_for);
    object["expiresInMs"] = json_of(waiter.expires_in);
    return object;
}

std::string lines_of(const Failure& failure) {
    const std::string detail = failure.detail();
    // What was seen since names the holder anew.
    const std::size_t end = failure.seen ? detail.find("; held by ") : std::string::npos;
    std::string text = "dlock: " + printable(detail.substr(0, end)) + "\n";
    if (failure.seen) text += "dlock: " + failure.seen->key.text() + " is " + describe(*failure.seen) + "\n";
    if (!failure.free_with.empty())
        text += "dlock: the command that would free this grant, whose holder's work may still run:\n  " +
                failure.free_with + "\n";
    return text;
}

}  // namespace

void open_standard_descriptors() noexcept {
    // The lowest free number is taken, so going upwards gives each one its own. Stdout is opened for reading
    // only: whoever closed it must not be told that a lease id was delivered.
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
        if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            if (::open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY) != fd)
                ::_exit(exit_code::internal);
}

void print(std::string_view text) {
    if (const int problem = write_all(STDOUT_FILENO, text); problem != 0)
        throw Failure(exit_code::internal, "output",
                      std::string("cannot write to stdout: ") + std::strerror(problem));
}

void print(const json::object& object) { print(json::serialize(object) + "\n"); }

void say(std::string_view line) noexcept {
    try {
        write_all(STDERR_FILENO, "dlock: " + std::string(line) + "\n");
    } catch (const std::bad_alloc&) {
        write_all(STDERR_FILENO, "dlock: out of memory\n");
    }
}

void report(const Failure& failure, bool json) noexcept {
    try {
        if (json && failure.name() != "output") {
            print(json_of(failure));
            return;
        }
    } catch (const Failure&) {
        // Stdout takes nothing: stderr then.
    } catch (const std::exception& problem) {
        say(problem.what());
    }
    try {
        write_all(STDERR_FILENO, lines_of(failure));
    } catch (const std::exception& problem) {
        say(problem.what());
    }
}

json::value json_of(const std::optional<Fence>& fence) {
    if (!fence) return nullptr;
    return json::string(std::to_string(fence->value));
}

json::value json_of(std::chrono::system_clock::time_point when) {
    const std::time_t seconds = std::chrono::system_clock::to_time_t(when);
    std::tm parts{};
    if (seconds == 0 || ::gmtime_r(&seconds, &parts) == nullptr) return nullptr;
    char text[32];
    return json::string(
        json::string_view(text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)));
}

json::object json_of(const Owner& owner) {
    json::object object;
    add(object, owner);
    return object;
}

json::object json_of(const HolderInfo& holder) {
    json::object object;
    object["publicId"] = utf8(holder.public_id);
    object["mode"] = utf8(holder.mode);
    object["heldOff"] = holder.held_off;
    add(object, holder.owner);
    object["fence"] = json_of(holder.fence);
    object["heldForMs"] = json_of(holder.held_for);
    object["expiresInMs"] = json_of(holder.expires_in);
    object["since"] = json_of(holder.since);
    return object;
}

json::object json_of(const LockInfo& lock) {
    json::object object;
    object["key"] = lock.key.text();
    object["kind"] = utf8(lock.kind);
    object["permits"] = lock.permits ? json::value(*lock.permits) : json::value(nullptr);
    json::array holders;
    for (const HolderInfo& holder : lock.holders) holders.push_back(json_of(holder));
    object["holders"] = std::move(holders);
    json::array waiters;
    for (const WaiterInfo& waiter : lock.waiters) waiters.push_back(json_of(waiter));
    object["waiters"] = std::move(waiters);
    object["waiterCount"] = lock.waiter_count;
    object["lastFence"] = json_of(lock.last_fence);
    object["problem"] = lock.problem.empty() ? json::value(nullptr) : json::value(utf8(lock.problem));
    return object;
}

json::object json_of(const Failure& failure) {
    json::object error;
    error["code"] = failure.name();
    error["detail"] = utf8(failure.detail());
    error["fault"] = json::string_view(to_string(failure.fault()).data(), to_string(failure.fault()).size());
    json::object object;
    object["error"] = std::move(error);
    if (failure.seen) object["lock"] = json_of(*failure.seen);
    if (!failure.free_with.empty()) object["freeWith"] = failure.free_with;
    return object;
}

}  // namespace dlock::cli
