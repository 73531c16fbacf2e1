// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

/// The courtesy line in front of a database: writers of all processes take turns, woken one by one, since
/// SQLite's own way to wait for its write lock is a ladder of sleeps that starves (2 s among 16 processes).
///
/// It is only courtesy. Nothing depends on it for correctness, and whoever waits longer than `patience` takes
/// the turn from the process that has it, which may be stopped or dead. So it needs no robust mutex, whose
/// list of pointers in the shared file would be a way into every process that maps it; a file of zeros is a
/// good one, and one that a power cut left behind heals itself.
namespace dlock::store::sqlite {

class Line {
public:
    /// Maps `<database>-line`, making it with the database's own owner and mode. Null when it cannot be had:
    /// then there is no courtesy, and all else works.
    static std::unique_ptr<Line> open(const std::string& database);
    ~Line();
    Line(const Line&) = delete;
    Line& operator=(const Line&) = delete;

    /// A turn, from construction to destruction. Null line: no waiting. Never both on one thread for one
    /// line.
    class Turn {
    public:
        explicit Turn(Line* line) noexcept : line_(line), ours_(line != nullptr ? line->enter() : 0) {}
        ~Turn() {
            if (line_ != nullptr) line_->leave(ours_);
        }
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;

    private:
        Line* line_;
        std::uint32_t ours_;
    };

private:
    using Word = std::atomic<std::uint32_t>;  ///< 0 free; else the thread id of who has the turn, and a flag
    static_assert(Word::is_always_lock_free && sizeof(Word) == 4);

    explicit Line(void* shared) noexcept : word_(static_cast<Word*>(shared)) {}
    std::uint32_t enter() noexcept;
    void leave(std::uint32_t ours) noexcept;

    Word* word_;
};

}  // namespace dlock::store::sqlite
