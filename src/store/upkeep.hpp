// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dlock/scan.hpp"
#include "store/store.hpp"

namespace dlock::store {

/// What some stores can do beside locking, for people. A store that can also derives from this; the engine
/// asks it by a cast, so that others need not know of it. On another connection than renewals.
class Upkeep {
public:
    virtual ~Upkeep() = default;

    /// One bounded step through all that is in the store, of whatever program. Reads only.
    virtual void scan(const ScanRequest& request, Call call, Completion<Result<ScanPage>> done) = 0;

    /// Drops what is remembered of a key that is free and that nobody waits for, in such a way that its later
    /// fences are still higher. Keys that are held, waited for, or of another form stay as they are.
    virtual void forget(const Key& key, Call call, Completion<Result<void>> done) = 0;
};

}  // namespace dlock::store
