// SPDX-License-Identifier: Apache-2.0
/// random_bytes() alone, so that the simulation can link its own from a seed.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <sys/mman.h>
#include <sys/random.h>

#include "core/ids.hpp"

namespace dlock::core {
namespace {

void from_kernel(std::uint8_t* out, std::size_t size) noexcept {
    while (size > 0) {
        const ssize_t got = getrandom(out, size, 0);
        if (got < 0 && errno != EINTR) std::abort();  // a guessable secret is worse than no process
        if (got <= 0) continue;
        out += got;
        size -= static_cast<std::size_t>(got);
    }
}

/// Lives in a page of its own that the kernel wipes in a forked child, whatever way it was forked: all zero
/// means nothing left, so the child never repeats its parent's bytes.
struct Pool {
    std::size_t left;
    std::array<std::uint8_t, 4096 - sizeof(std::size_t)> bytes;
};

Pool* open_pool() noexcept {
    void* page = mmap(nullptr, sizeof(Pool), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return nullptr;
    if (madvise(page, sizeof(Pool), MADV_WIPEONFORK) == 0) return static_cast<Pool*>(page);
    munmap(page, sizeof(Pool));
    return nullptr;
}

thread_local Pool* pool = nullptr;

struct PoolCloser {
    PoolCloser() = default;
    PoolCloser(const PoolCloser&) = delete;
    PoolCloser& operator=(const PoolCloser&) = delete;
    ~PoolCloser() {
        if (pool != nullptr) munmap(pool, sizeof(Pool));
        pool = nullptr;
    }
};

Pool* this_threads_pool() noexcept {
    if (pool == nullptr) {
        pool = open_pool();
        thread_local const PoolCloser closer;
    }
    return pool;
}

}  // namespace

void random_bytes(std::uint8_t* out, std::size_t size) noexcept {
    Pool* const mine = this_threads_pool();
    if (mine == nullptr || size > mine->bytes.size()) return from_kernel(out, size);
    if (mine->left < size) {
        from_kernel(mine->bytes.data(), mine->bytes.size());
        mine->left = mine->bytes.size();
    }
    std::uint8_t* const from = mine->bytes.data() + (mine->left - size);
    std::memcpy(out, from, size);
    std::memset(from, 0, size);  // what was given out is nobody else's
    mine->left -= size;
}

}  // namespace dlock::core
