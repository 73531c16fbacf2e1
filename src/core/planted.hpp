// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Faults planted on purpose, to prove that the simulation finds them. Each is one `if (planted(Planted::x))`
/// where the rule stands. Only the simulation's build (DLOCK_PLANTED) can switch one on; in every other build
/// `planted()` is constant false and the branch is gone.
namespace dlock::core {

enum class Planted {
    none,
    // core: time and renewal
    margin_ignored,               ///< usable until = send time + lease
    counted_from_reply,           ///< lease time counted from the answer, not from the sending
    renewal_revives,              ///< a late renewal makes a lost lease valid again
    renewed_after_release,        ///< a released lease stays in the renewal schedule
    unknown_taken_for_renewed,    ///< a renewal without answer extends the lease
    loss_not_told,                ///< the deadline passes and nobody is told
    unknown_taken_for_contended,  ///< an acquire without answer is given up, not settled
    reply_taken_for_other,        ///< a late reply of an earlier call is taken for the present one's
    withdraw_forgotten,           ///< a cancelled wait leaves ticket or grant in the store
    repeat_counts_anew,           ///< the repeat of an unanswered acquire restarts the lease's time
    // core: lines
    waiter_dropped,      ///< a local waiter is not made head when the one before it leaves
    newcomer_overtakes,  ///< a free lock is given past live tickets
    dead_ticket_blocks,  ///< an expired ticket at the head is not skipped
    look_forgotten,      ///< a waiter trusts the push alone and never looks by itself
    ticket_not_renewed,
    // core: records
    fence_reused,            ///< a re-take after expiry keeps the last fence
    fence_from_clock_only,   ///< the fence is the store's time, whatever was given before
    expired_still_renewed,   ///< the store renews a lease that has expired
    release_ignores_owner,   ///< the store frees the lock for anybody
    attempt_not_recognised,  ///< the store does not recognise a repeated acquire
    expiry_ignored,          ///< the store gives a lock away before its lease ended
    readers_not_counted,     ///< a writer comes in while others read
    reader_passes_writer,    ///< a reader comes in past a writer that waits
    one_permit_too_many,     ///< the store grants one more than there are
};

#ifdef DLOCK_PLANTED
extern Planted planted_fault;  ///< set by the simulation before a run
inline bool planted(Planted fault) noexcept { return planted_fault == fault; }
#else
constexpr bool planted(Planted) noexcept { return false; }
#endif

}  // namespace dlock::core
