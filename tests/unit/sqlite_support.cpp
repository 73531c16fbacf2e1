// SPDX-License-Identifier: Apache-2.0
#include "sqlite_support.hpp"

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <stdexcept>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace dlock::store::sqlite {
namespace {

/// Lets a call of the seam be waited for.
template <class Answer>
class Answered {
public:
    Completion<Answer> take() {
        return [promise = promise_](Answer answer) { promise->set_value(std::move(answer)); };
    }
    Answer get() {
        auto future = promise_->get_future();
        if (future.wait_for(patience) != std::future_status::ready) throw std::runtime_error("no answer");
        return future.get();
    }

private:
    std::shared_ptr<std::promise<Answer>> promise_ = std::make_shared<std::promise<Answer>>();
};

}  // namespace

TempFolder::TempFolder() {
    std::string pattern = std::filesystem::temp_directory_path() / "dlock-sqlite-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = pattern;
}

TempFolder::~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

Raw::Raw(const std::string& file) {
    if (sqlite3_open(file.c_str(), &handle_) != SQLITE_OK) throw std::runtime_error(sqlite3_errmsg(handle_));
    sqlite3_busy_timeout(handle_, 10'000);
}

void Raw::run(const std::string& sql) {
    if (sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
        throw std::runtime_error(sql + ": " + sqlite3_errmsg(handle_));
}

std::string Raw::one(const std::string& sql) {
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v2(handle_, sql.c_str(), -1, &statement, nullptr) != SQLITE_OK)
        throw std::runtime_error(sql + ": " + sqlite3_errmsg(handle_));
    std::string text;
    if (sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_text(statement, 0) != nullptr)
        text = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
    return text;
}

Rig::Rig(const Url& url) : store(open_sqlite(url, StoreEnv{loop, "instance", 1s}).value()) {
    owner->service = "tests";
    owner->host = "here";
    owner->pid = getpid();
}

SubjectPtr Rig::subject(const std::string& key) const {
    return std::make_shared<const Subject>(Key{key}, owner);
}

AcquireAnswer Rig::acquire(const std::string& key, const GrantId& attempt, std::chrono::milliseconds lease,
                           Place place) {
    AcquireRequest request;
    request.subject = subject(key);
    request.attempt = attempt;
    request.lease = lease;
    request.place = place;
    Answered<AcquireAnswer> answered;
    store->acquire(request, call(), answered.take());
    return answered.get();
}

GrantId Rig::hold(const std::string& key, std::chrono::milliseconds lease) {
    const auto attempt = new_id<GrantId>();
    const AcquireAnswer answer = acquire(key, attempt, lease);
    EXPECT_TRUE(std::holds_alternative<Granted>(answer)) << key << ": " << error_of(answer).message();
    return attempt;
}

std::uint64_t Rig::fence(const std::string& key) {
    const auto attempt = new_id<GrantId>();
    const auto fence = fence_of(acquire(key, attempt));
    EXPECT_TRUE(fence) << key;
    EXPECT_EQ(release(key, attempt).value(), Released::released) << key;
    return fence ? fence->value : 0;
}

Queued Rig::queue(const std::string& key, const GrantId& attempt, const TicketId& ticket,
                  std::chrono::milliseconds ticket_lease) {
    AcquireAnswer answer = acquire(key, attempt, 10s, join(ticket, ticket_lease));
    EXPECT_TRUE(std::holds_alternative<Queued>(answer)) << key << ": " << error_of(answer).message();
    return std::holds_alternative<Queued>(answer) ? std::get<Queued>(answer) : Queued{};
}

Result<Released> Rig::release(const std::string& key, const GrantId& attempt,
                              std::optional<TicketId> ticket) {
    ReleaseRequest request;
    request.subject = subject(key);
    request.attempt = attempt;
    request.ticket = ticket;
    Answered<Result<Released>> answered;
    store->release(request, call(), answered.take());
    return answered.get();
}

RenewAnswer Rig::renew(const std::string& key, std::variant<GrantId, TicketId> id,
                       std::chrono::milliseconds lease) {
    RenewItem item;
    item.subject = subject(key);
    item.id = id;
    item.lease = lease;
    Answered<std::vector<RenewAnswer>> answered;
    store->renew({item}, call(), answered.take());
    return answered.get().at(0);
}

Result<Page> Rig::inspect(const InspectRequest& request) {
    Answered<Result<Page>> answered;
    store->inspect(request, call(), answered.take());
    return answered.get();
}

LockInfo Rig::show(const std::string& key) {
    const Page page = inspect({.filter = {}, .only = Key{key}}).value();
    return page.locks.empty() ? LockInfo{} : page.locks.front();
}

Result<Forced> Rig::force(const std::string& key, const std::string& seen) {
    Answered<Result<Forced>> answered;
    store->force_release(Key{key}, seen, call(), answered.take());
    return answered.get();
}

Place join(const TicketId& ticket, std::chrono::milliseconds ticket_lease, Place::AfterGrant after) {
    Place place;
    place.line = Place::Line::join;
    place.after_grant = after;
    place.ticket = ticket;
    place.ticket_lease = ticket_lease;
    return place;
}

std::optional<Fence> fence_of(const AcquireAnswer& answer) {
    const auto* granted = std::get_if<Granted>(&answer);
    return granted != nullptr ? granted->fence : std::nullopt;
}

Error error_of(const AcquireAnswer& answer) {
    const auto* error = std::get_if<Error>(&answer);
    return error != nullptr ? *error : Error(errc::store_error, "(no error)", Fault::none);
}

Process::Process(const std::string& role, const std::vector<std::string>& arguments) {
    std::vector<std::string> words{"/proc/self/exe", "--role", role};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    int in[2];
    int out[2];
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    const int failed = posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    to_ = in[1];
    from_ = out[0];
    if (failed != 0) throw std::runtime_error("posix_spawn");
}

Process::~Process() {
    if (pid_ > 0) {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }
    close(to_);
    close(from_);
}

std::string Process::line() {
    for (;;) {
        const std::size_t end = read_.find('\n');
        if (end != std::string::npos) {
            std::string line = read_.substr(0, end);
            read_.erase(0, end + 1);
            return line;
        }
        pollfd ready{.fd = from_, .events = POLLIN, .revents = 0};
        char bytes[4096];
        if (poll(&ready, 1, 1000 * static_cast<int>(patience.count())) != 1) return {};
        const ssize_t size = read(from_, bytes, sizeof bytes);
        if (size <= 0) return {};
        read_.append(bytes, static_cast<std::size_t>(size));
    }
}

void Process::say(const std::string& line) const {
    const std::string text = line + "\n";
    EXPECT_EQ(write(to_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

void Process::signal(int number) const { EXPECT_EQ(kill(pid_, number), 0); }

int Process::wait() {
    const int handle = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
    pollfd ended{.fd = handle, .events = POLLIN, .revents = 0};
    const int ready = poll(&ended, 1, 1000 * static_cast<int>(patience.count()));
    close(handle);
    if (ready != 1) return -1;
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace dlock::store::sqlite

int main(int argc, char** argv) {
    if (argc > 2 && std::string_view(argv[1]) == "--role")
        return dlock::store::sqlite::play(argv[2], std::vector<std::string>(argv + 3, argv + argc));
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
