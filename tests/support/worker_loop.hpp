// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace dlock::testing {

/// A client of locks that obeys lines read from `in` and answers on `out`, until "quit" or the end of `in`:
/// the body of the program dlock_test_worker, and a thread where a store has no other processes.
/// SLOT is a word that names one lease; times are milliseconds, moments nanoseconds of BootClock.
///
///     open URL                              opened | failed CODE DETAIL
///     acquire SLOT LEASE WAIT RENEWING KEY  granted SLOT FENCE NOW | refused SLOT CODE    WAIT: number or
///     forever
///                                           later, unasked: lost SLOT NOW REASON          RENEWING:
///                                           automatic, manual
///     as MODE PERMITS                       as MODE            how locks are taken from here on: exclusive,
///                                           write, shared, permit
///     cancel SLOT
///     held SLOT                             held SLOT yes|no USABLE_UNTIL NOW
///     renew SLOT                            renewed SLOT ok|CODE
///     release SLOT                          released SLOT ok|CODE
///     drop SLOT                             dropped SLOT
///     detach SLOT                           detached SLOT ID
///     renew_id LEASE ID                     renewed_id ok|CODE
///     release_id ID                         released_id ok|CODE
///     load ROUNDS LEASE FILE KEY            loaded ROUNDS | failed CODE DETAIL
///     share ROUNDS LEASE FILE KEY           the same, in the mode that was said
///     campaign SLOT LEASE KEY               later, each time: elected SLOT FENCE NOW, then ended SLOT NOW
///     resign SLOT
///     stop SLOT                             stopped SLOT
///     close                                 closed ok|CODE
///
/// Every event of the client is a line "event KIND KEY".
/// @return the exit status of the program
int run_worker(int in, int out);

}  // namespace dlock::testing
