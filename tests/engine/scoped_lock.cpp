// SPDX-License-Identifier: Apache-2.0
/// Compiled twice by ctest: with DLOCK_LOCKED=StdMutex it must compile, with DLOCK_LOCKED=Mutex it must not.
#include <mutex>

#include "dlock/dlock.hpp"

void work(dlock::DLOCK_LOCKED& mutex) { const std::scoped_lock lock(mutex); }
