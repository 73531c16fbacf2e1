// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>
#include <termios.h>

namespace dlock::cli {

/// The controlling terminal, where there is one: which process group has its foreground.
class Terminal {
public:
    Terminal() noexcept;
    ~Terminal();
    Terminal(const Terminal&) = delete;
    Terminal& operator=(const Terminal&) = delete;

    [[nodiscard]] bool exists() const noexcept { return fd_ >= 0; }
    [[nodiscard]] int fd() const noexcept { return fd_; }
    [[nodiscard]] bool foreground_is(pid_t group) const noexcept;
    /// Whether the command should have the foreground unasked: we have it, stdin is the terminal, and no
    /// pipe to another program (a pager, which shares our group) would lose it.
    [[nodiscard]] bool should_hand_over() const noexcept;
    void give(pid_t group) const noexcept;
    /// Puts back the modes (echo, line editing) that a command left behind when it was stopped or killed.
    void restore_modes() const noexcept;

private:
    int fd_;
    bool has_modes_ = false;
    termios modes_{};
};

/// A running command in a process group of its own, which dies with us.
class Command {
public:
    /// What the command does not take over from us as it is.
    struct Own {
        const sigset_t& mask;  ///< its signal mask
        int out = -1;          ///< its stdout; -1: ours
    };
    /// Failure 126 or 127 when it cannot be executed.
    Command(const std::vector<std::string>& words, const std::vector<std::string>& environment,
            const Own& own, const Terminal& terminal);
    ~Command();  ///< kills the group if it was not reaped
    Command(const Command&) = delete;
    Command& operator=(const Command&) = delete;

    [[nodiscard]] pid_t group() const noexcept { return pid_; }
    /// To every process of the group. Not after reap().
    void signal_group(int signal) const noexcept;

    /// Whether the direct command has ended. Its process id stays ours until reap().
    [[nodiscard]] bool ended() const noexcept;
    /// The signal that stopped it, told once.
    [[nodiscard]] std::optional<int> stopped_by() const noexcept;

    struct Status {
        int code = 0;    ///< its exit status, when no signal ended it
        int signal = 0;  ///< the signal that ended it
    };
    /// Takes its status; only once it has ended.
    Status reap() noexcept;

private:
    pid_t pid_ = -1;
    bool reaped_ = false;
};

}  // namespace dlock::cli
