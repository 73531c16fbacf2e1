// SPDX-License-Identifier: Apache-2.0
#include "cli/command.hpp"

#include <cerrno>
#include <cstring>
#include <system_error>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/exit_code.hpp"

namespace dlock::cli {
namespace {

/// All that the child needs, made before it exists: between vfork and exec it may not allocate.
struct Start {
    char* const* words;
    char* const* environment;
    const sigset_t* mask;
    int out;       ///< -1: our stdout
    int terminal;  ///< -1: leave the foreground alone
    int problem;   ///< close-on-exec pipe for errno
    pid_t parent;
};

[[noreturn]] void become(const Start& start) noexcept {
    ::setpgid(0, 0);
    if (start.terminal >= 0) ::tcsetpgrp(start.terminal, ::getpid());  // SIGTTOU is still blocked
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != start.parent) ::_exit(exit_code::internal);  // killed before the line above
    if (start.out >= 0) ::dup2(start.out, STDOUT_FILENO);
    pthread_sigmask(SIG_SETMASK, start.mask, nullptr);
    ::execvpe(start.words[0], start.words, start.environment);
    const int problem = errno;
    [[maybe_unused]] const ssize_t written = ::write(start.problem, &problem, sizeof problem);
    ::_exit(exit_code::not_found);
}

/// vfork: no copy of the page tables, and the parent goes on only when the child has become the command.
[[gnu::noinline]] pid_t launch(const Start& start) noexcept {
    const pid_t pid = ::vfork();
    if (pid == 0) become(start);
    return pid;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
    std::vector<char*> result;
    result.reserve(texts.size() + 1);
    for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
    result.push_back(nullptr);
    return result;
}

[[noreturn]] void fail_exec(const std::string& name, int problem) {
    if (problem == ENOENT || problem == ENOTDIR)
        throw Failure(exit_code::not_found, "command_not_found", name + ": " + std::strerror(problem));
    throw Failure(exit_code::cannot_execute, "command_not_executable", name + ": " + std::strerror(problem));
}

}  // namespace

Terminal::Terminal() noexcept : fd_(::open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY)) {
    if (fd_ >= 0) has_modes_ = ::tcgetattr(fd_, &modes_) == 0;
}

Terminal::~Terminal() {
    if (fd_ >= 0) ::close(fd_);
}

bool Terminal::foreground_is(pid_t group) const noexcept { return fd_ >= 0 && ::tcgetpgrp(fd_) == group; }

bool Terminal::should_hand_over() const noexcept {
    struct stat out {};
    const bool piped = ::fstat(STDOUT_FILENO, &out) == 0 && S_ISFIFO(out.st_mode);
    return foreground_is(::getpgrp()) && ::isatty(STDIN_FILENO) == 1 && !piped;
}

void Terminal::give(pid_t group) const noexcept {
    if (fd_ >= 0) ::tcsetpgrp(fd_, group);
}

void Terminal::restore_modes() const noexcept {
    if (has_modes_) ::tcsetattr(fd_, TCSADRAIN, &modes_);
}

Command::Command(const std::vector<std::string>& words, const std::vector<std::string>& environment,
                 const Own& own, const Terminal& terminal) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
    const std::vector<char*> argv = pointers(words);
    const std::vector<char*> envp = pointers(environment);
    const int tty = terminal.should_hand_over() ? terminal.fd() : -1;
    pid_ = launch({argv.data(), envp.data(), &own.mask, own.out, tty, ends[1], ::getpid()});
    const int fork_problem = errno;
    ::close(ends[1]);
    int problem = 0;
    const bool failed = pid_ > 0 && ::read(ends[0], &problem, sizeof problem) == sizeof problem;
    ::close(ends[0]);
    if (pid_ < 0) throw std::system_error(fork_problem, std::generic_category(), "vfork");
    if (!failed) return;
    ::waitpid(pid_, nullptr, 0);
    if (tty >= 0) terminal.give(::getpgrp());
    fail_exec(words.front(), problem);
}

Command::~Command() {
    if (reaped_) return;
    signal_group(SIGKILL);
    ::waitpid(pid_, nullptr, 0);
}

void Command::signal_group(int signal) const noexcept { ::kill(-pid_, signal); }

bool Command::ended() const noexcept {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == pid_;
}

std::optional<int> Command::stopped_by() const noexcept {
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WNOHANG) != 0 || info.si_pid != pid_)
        return std::nullopt;
    return info.si_status;
}

Command::Status Command::reap() noexcept {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    reaped_ = true;
    if (WIFSIGNALED(status)) return {0, WTERMSIG(status)};
    return {WEXITSTATUS(status), 0};
}

}  // namespace dlock::cli
