// SPDX-License-Identifier: Apache-2.0
#include "store/sqlite/line.hpp"

#include <cerrno>
#include <chrono>
#include <ctime>

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace dlock::store::sqlite {
namespace {

constexpr std::size_t file_size = 64;
constexpr std::uint32_t waiters = 0x80000000U;  ///< somebody sleeps until the turn ends
constexpr std::chrono::milliseconds patience{50};

std::uint32_t thread_id() noexcept {
    thread_local const auto id = static_cast<std::uint32_t>(syscall(SYS_gettid));
    return id;
}

/// Sleeps until the word changes, or the moment (of CLOCK_MONOTONIC) has come: false then.
bool wait_changed(std::atomic<std::uint32_t>* word, std::uint32_t seen, const timespec& until) noexcept {
    const long slept =
        syscall(SYS_futex, word, FUTEX_WAIT_BITSET, seen, &until, nullptr, FUTEX_BITSET_MATCH_ANY);
    return slept == 0 || errno != ETIMEDOUT;
}

timespec from_now(std::chrono::nanoseconds delay) noexcept {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    const auto total = std::chrono::nanoseconds(time.tv_nsec) + delay;
    const auto seconds = std::chrono::floor<std::chrono::seconds>(total);
    time.tv_sec += seconds.count();
    time.tv_nsec = (total - seconds).count();
    return time;
}

/// The same rights as the database: who may write that may stand in line for it.
void share_as(int file, const std::string& database) noexcept {
    struct stat status {};
    if (stat(database.c_str(), &status) != 0) return;
    if (fchown(file, status.st_uid, status.st_gid) == 0 || status.st_uid == geteuid())
        static_cast<void>(fchmod(file, status.st_mode & 0666));
}

int open_file(const std::string& database) noexcept {
    const std::string path = database + "-line";
    const int made = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (made >= 0) {
        share_as(made, database);
        return made;
    }
    return errno == EEXIST ? ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW) : -1;
}

}  // namespace

std::unique_ptr<Line> Line::open(const std::string& database) {
    const int file = open_file(database);
    if (file < 0) return nullptr;
    // Written and not only extended: a map of a hole would need space on a full disk later, and fault.
    struct stat status {};
    const bool sized =
        fstat(file, &status) == 0 && S_ISREG(status.st_mode) &&
        (status.st_size >= static_cast<off_t>(file_size) || posix_fallocate(file, 0, file_size) == 0);
    void* shared = sized ? mmap(nullptr, file_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
    close(file);
    return shared == MAP_FAILED ? nullptr : std::unique_ptr<Line>(new Line(shared));
}

Line::~Line() { munmap(word_, file_size); }

std::uint32_t Line::enter() noexcept {
    const std::uint32_t me = thread_id();
    std::uint32_t seen = 0;
    if (word_->compare_exchange_strong(seen, me, std::memory_order_acquire)) return me;
    const timespec until = from_now(patience);
    // From here on with the flag, since others may sleep beside us.
    for (const std::uint32_t mine = me | waiters;;) {
        if (seen == 0) {
            if (word_->compare_exchange_strong(seen, mine, std::memory_order_acquire)) return mine;
        } else if ((seen & waiters) == 0) {
            if (word_->compare_exchange_strong(seen, seen | waiters, std::memory_order_relaxed))
                seen |= waiters;
        } else if (wait_changed(word_, seen, until)) {
            seen = word_->load(std::memory_order_relaxed);
        } else {
            word_->exchange(mine, std::memory_order_acquire);
            return mine;
        }
    }
}

void Line::leave(std::uint32_t ours) noexcept {
    // The flag may have come on meanwhile, or the turn been taken by one who ran out of patience.
    for (std::uint32_t seen = ours; !word_->compare_exchange_weak(seen, 0, std::memory_order_release);) {
        if (((seen ^ ours) & ~waiters) != 0) return;
        ours = seen;
    }
    if ((ours & waiters) != 0) syscall(SYS_futex, word_, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

}  // namespace dlock::store::sqlite
