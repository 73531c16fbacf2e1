// SPDX-License-Identifier: Apache-2.0
#include "support/worker.hpp"

#include <algorithm>
#include <csignal>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/worker_loop.hpp"

namespace dlock::testing {

namespace {

void check(int error, const char* what) {
    if (error != 0) throw std::system_error(error, std::generic_category(), what);
}

struct Pipe {
    int read = -1;
    int write = -1;
    Pipe() {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) != 0) check(errno, "pipe");
        read = ends[0];
        write = ends[1];
    }
};

}  // namespace

Worker::Worker(As as, const std::string& url) {
    const Pipe commands;
    const Pipe answers;
    to_ = commands.write;
    if (as == As::process) {
        start_process(commands.read, answers.write);
        close(commands.read);
        close(answers.write);
    } else {
        thread_ = std::thread([in = commands.read, out = answers.write] {
            run_worker(in, out);
            close(in);
            close(out);
        });
    }
    reader_ = std::thread([this, from = answers.read] { read_lines(from); });
    if (!ask("open " + url, "opened")) {
        std::fprintf(stderr, "worker: %s\n", expect("failed", 0ms).value_or("no answer").c_str());
    }
}

Worker::~Worker() {
    if (process_ > 0) kill();
    if (thread_.joinable()) send("quit");
    close(to_);
    if (thread_.joinable()) thread_.join();
    reader_.join();
}

void Worker::start_process(int in, int out) {
    posix_spawn_file_actions_t actions;
    check(posix_spawn_file_actions_init(&actions), "posix_spawn");
    posix_spawn_file_actions_adddup2(&actions, in, 0);
    posix_spawn_file_actions_adddup2(&actions, out, 1);
    std::string program = DLOCK_TEST_WORKER;
    char* arguments[] = {program.data(), nullptr};
    const int error = posix_spawn(&process_, program.c_str(), &actions, nullptr, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    check(error, DLOCK_TEST_WORKER);
}

void Worker::read_lines(int from) {
    std::string input;
    char buffer[4096];
    ssize_t n = 0;
    while ((n = read(from, buffer, sizeof buffer)) > 0) {
        input.append(buffer, static_cast<std::size_t>(n));
        const std::lock_guard lock(mutex_);
        for (auto end = input.find('\n'); end != std::string::npos; end = input.find('\n')) {
            lines_.push_back(input.substr(0, end));
            input.erase(0, end + 1);
        }
        changed_.notify_all();
    }
    close(from);
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
}

void Worker::send(const std::string& line) {
    const std::string whole = line + '\n';
    if (write(to_, whole.data(), whole.size()) != static_cast<ssize_t>(whole.size())) {
        check(errno, "worker: write");
    }
}

std::optional<std::string> Worker::expect(const std::string& words, milliseconds limit) {
    const std::string start = words + ' ';
    const auto fits = [&](const std::string& line) { return line == words || line.starts_with(start); };
    std::unique_lock lock(mutex_);
    auto found = lines_.end();
    changed_.wait_for(lock, limit, [&] {
        found = std::find_if(lines_.begin(), lines_.end(), fits);
        return found != lines_.end() || ended_;
    });
    if (found == lines_.end()) return std::nullopt;
    std::string rest = found->size() > words.size() ? found->substr(start.size()) : "";
    lines_.erase(found);
    return rest;
}

std::optional<std::string> Worker::ask(const std::string& line, const std::string& words) {
    send(line);
    return expect(words);
}

bool Worker::said(const std::string& words) {
    const std::string start = words + ' ';
    const std::lock_guard lock(mutex_);
    return std::any_of(lines_.begin(), lines_.end(),
                       [&](const std::string& line) { return line == words || line.starts_with(start); });
}

std::string Worker::unread() {
    std::string all;
    const std::lock_guard lock(mutex_);
    for (const std::string& line : lines_) all += line + '\n';
    return all;
}

void Worker::signal(int number) const {
    // kill(-1) would be for every process there is.
    if (process_ <= 0) throw std::logic_error("this worker is no process, or no longer one");
    ::kill(process_, number);
}

void Worker::kill() {
    signal(SIGKILL);
    waitpid(process_, nullptr, 0);
    process_ = -1;
}

void Worker::stop() {
    signal(SIGSTOP);
    waitpid(process_, nullptr, WUNTRACED);
}

void Worker::resume() { signal(SIGCONT); }

bool Worker::queue_up(const std::string& slot, milliseconds lease, const Key& key) {
    send("acquire " + slot + ' ' + std::to_string(lease.count()) + " forever automatic " + key.text());
    return expect("event waiting " + key.text()).has_value();
}

std::optional<std::uint64_t> Worker::acquire(const std::string& slot, milliseconds lease, const Key& key) {
    const auto answer =
        ask("acquire " + slot + ' ' + std::to_string(lease.count()) + " 0 automatic " + key.text(),
            "granted " + slot);
    if (!answer) return std::nullopt;
    return std::stoull(*answer);
}

}  // namespace dlock::testing
