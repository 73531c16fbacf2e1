// SPDX-License-Identifier: Apache-2.0
#include "support/shared_counter.hpp"

#include <system_error>
#include <thread>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace dlock::testing {

SharedCounter::SharedCounter(const std::string& path) {
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, sizeof(State)) != 0) {
        throw std::system_error(errno, std::generic_category(), path);
    }
    void* memory = mmap(nullptr, sizeof(State), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), path);
    state_ = static_cast<State*>(memory);  // zeros, as the file was made, are a valid start of every atomic
}

SharedCounter::~SharedCounter() { munmap(state_, sizeof(State)); }

void SharedCounter::work(std::optional<Fence> fence) {
    if (state_->inside.fetch_add(1) != 0) ++state_->overlaps;
    if (fence) {
        const std::uint64_t before = state_->last_fence.exchange(fence->value);
        if (fence->value <= before) ++state_->fences_not_higher;
    }
    const std::uint64_t seen = state_->count;
    for (int i = 0; i < 3; ++i) std::this_thread::yield();  // room for another holder to come between
    state_->count = seen + 1;
    --state_->inside;
}

void SharedCounter::share(std::uint64_t weight, std::uint64_t limit) {
    if (state_->inside.fetch_add(weight) + weight > limit) ++state_->overlaps;
    for (int i = 0; i < 3; ++i) std::this_thread::yield();
    state_->inside -= weight;
    ++state_->count;
}

}  // namespace dlock::testing
