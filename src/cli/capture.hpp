// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <thread>

namespace dlock::cli {

/// Takes the stdout of a command: keeps the beginning, and passes all of it on to ours at once, on a thread
/// of its own, so that a reader who is slow delays no deadline.
class Capture {
public:
    enum class Show { yes, no };

    /// Keeps up to `most` bytes.
    Capture(std::size_t most, Show show);
    ~Capture();
    Capture(const Capture&) = delete;
    Capture& operator=(const Capture&) = delete;

    /// For the command; closed here by finish().
    [[nodiscard]] int write_end() const noexcept { return write_end_; }

    /// After the direct command has ended: what it wrote until now counts, not what it left running. Failure
    /// (125) when our stdout did not take it.
    void finish();
    [[nodiscard]] const std::string& text() const noexcept { return text_; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }  ///< of all that came

private:
    void read();
    [[nodiscard]] bool take();

    const std::size_t most_;
    const Show show_;
    int read_end_ = -1;
    int write_end_ = -1;
    int ended_ = -1;  ///< an eventfd
    int problem_ = 0;
    std::string text_;
    std::size_t size_ = 0;
    std::thread reader_;
};

}  // namespace dlock::cli
