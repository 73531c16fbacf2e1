// SPDX-License-Identifier: Apache-2.0
#include <csignal>

#include <sys/prctl.h>

#include "support/worker_loop.hpp"

/// The program that tests kill, stop and continue.
int main() {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // also while stopped, nothing outlives its test
    signal(SIGPIPE, SIG_IGN);
    return dlock::testing::run_worker(0, 1);
}
