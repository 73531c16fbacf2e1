// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "dlock/lease.hpp"
#include "dlock/options.hpp"

namespace dlock {

/// The read-write lock of one key: one writer, or any number of readers. All stand in one line in order of
/// arrival, so a waiting writer stops later readers and is not starved; readers next to each other in line
/// come in together. A key is a Mutex or a SharedMutex, not both: `limit_differs`. Otherwise as Mutex: no
/// state of its own, any thread, `scoped_lock` kept out on purpose.
class SharedMutex {
public:
    SharedMutex(std::shared_ptr<engine::Engine> engine, Key key) noexcept;

    /// The writer: alone. As `Mutex::acquire` and the others there.
    [[nodiscard]] Lease acquire(AcquireOptions options = {}, const Context& context = {});
    Result<Lease> try_acquire(AcquireOptions options = {}, const Context& context = {});
    void start_acquire(AcquireOptions options, Context context, std::function<void(Result<Lease>)> done,
                       Lease::Deliver deliver = Lease::Deliver::delivery_thread);

    /// A reader, beside others.
    [[nodiscard]] Lease acquire_shared(AcquireOptions options = {}, const Context& context = {});
    Result<Lease> try_acquire_shared(AcquireOptions options = {}, const Context& context = {});
    void start_acquire_shared(AcquireOptions options, Context context,
                              std::function<void(Result<Lease>)> done,
                              Lease::Deliver deliver = Lease::Deliver::delivery_thread);

    /// The writer becomes a reader without letting go; the readers at the head of the line come in. Same
    /// fence. `lost` when it was not held any more; after `unknown_outcome` count on being a reader only.
    /// Blocks up to the call time-out. Nothing to do for a reader.
    Result<void> downgrade(Lease& lease);

    /// The only reader becomes the writer, before those in line, with a higher fence. Never waits, since two
    /// readers that wait to become the writer wait for each other: `contended` while others read, and the
    /// lease stays a reader's. After `unknown_outcome` likewise; the store may keep others out then. Blocks
    /// up to the call time-out.
    Result<void> try_upgrade(Lease& lease);

    [[nodiscard]] const Key& key() const noexcept { return key_; }

private:
    std::shared_ptr<engine::Engine> engine_;
    Key key_;
};

}  // namespace dlock
