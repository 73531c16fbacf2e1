# SPDX-License-Identifier: Apache-2.0
"""docs/from-flock.md: what stays the same and what differs, with both commands side by side."""
import os
import signal
import unittest

from support import HOLD, Case, Running, wait_gone


class Both(Case):
    def setUp(self):
        super().setUp()
        self.file = self.path("file")

    def run_both(self, options, command):
        """(exit of flock, exit of dlock)"""
        flock = self.wait_for("flock", *options, self.file, *command)
        return flock, self.dlock("run", *options, "k", "--", *command).returncode

    def wait_for(self, *args):
        running = self.begin(*args)
        running.close_stdin()
        return running.wait()

    def begin(self, *args):
        running = Running(list(args), self.env, cwd=self.folder)
        self.addCleanup(running.end)
        return running

    def hold_both(self, *options):
        """Both held: (flock, the pid of its command), (dlock, the pid of its command)"""
        work = ["sh", "-c", "echo $$; exec cat"]
        both = [self.begin("flock", self.file, *work), self.start("run", *options, "k", "--", *work)]
        pids = [int(running.out.line()) for running in both]
        for pid in pids:
            self.addCleanup(self.let_go, self.pidfd(pid))
        return zip(both, pids)

    @staticmethod
    def let_go(pidfd):
        try:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def flock_free(self):
        return self.wait_for("flock", "-n", self.file, "true") == 0

    def dlock_free(self, wait="0"):
        return self.dlock("run", "-w", wait, "k", "--", "true").returncode == 0


class Same(Both):
    def test_the_commands_own_exit_code_and_128_and_the_signal(self):
        self.assertEqual((0, 0), self.run_both([], ["true"]))
        self.assertEqual((7, 7), self.run_both([], ["sh", "-c", "exit 7"]))
        self.assertEqual((137, 137), self.run_both([], ["sh", "-c", "kill -9 $$"]))

    def test_options_when_it_is_busy(self):
        for running, _ in self.hold_both():
            self.assertIsNone(running.process.poll())
        for options in (["-n"], ["-w", "0.1"], ["-w", "0"]):
            self.assertEqual((1, 75), self.run_both(options, ["true"]))
            self.assertEqual((9, 9), self.run_both([*options, "-E", "9"], ["true"]))

    def test_the_next_one_comes_when_the_command_ends(self):
        for running, _ in self.hold_both():
            running.close_stdin()
            running.wait()
        self.assertEqual((0, 0), self.run_both(["-n"], ["true"]))


class Different(Both):
    def test_a_command_that_is_not_found(self):
        self.env["PATH"] = "/usr/bin:/bin"  # a folder in it that this user may not search makes it 126
        self.assertEqual((69, 127), self.run_both([], ["no-such-command"]))

    def test_what_the_command_leaves_behind_keeps_flocks_lock_and_not_ours(self):
        fifo = self.fifo()
        leave = ["sh", "-c", f"cat {fifo} >/dev/null 2>&1 & echo $!"]
        both = [self.begin("flock", self.file, *leave), self.start("run", "k", "--", *leave)]
        for running in both:
            self.addCleanup(self.let_go, self.pidfd(int(running.out.line())))
            running.wait()
        self.assertFalse(self.flock_free())
        self.assertTrue(self.dlock_free())

    def test_with_close_flocks_lock_is_free_too(self):
        fifo = self.fifo()
        running = self.begin("flock", "-o", self.file, "sh", "-c", f"cat {fifo} >/dev/null 2>&1 & echo $!")
        self.addCleanup(self.let_go, self.pidfd(int(running.out.line())))
        running.wait()
        self.assertTrue(self.flock_free())

    def test_term_to_flock_leaves_the_command_running_with_the_lock_and_dlock_passes_it_on(self):
        (flock, flocks), (dlock, ours) = self.hold_both()
        work, our_work = self.pidfd(flocks), self.pidfd(ours)
        flock.kill(signal.SIGTERM)
        self.assertEqual(-signal.SIGTERM, flock.wait())
        self.assertFalse(self.flock_free())
        self.assertFalse(wait_gone(work, 0))
        dlock.kill(signal.SIGTERM)
        self.assertEqual(128 + signal.SIGTERM, dlock.wait())
        self.assertTrue(wait_gone(our_work, 5))
        self.assertTrue(self.dlock_free())

    def test_kill_of_flock_leaves_the_command_and_kill_of_dlock_ends_it_and_frees_after_the_lease(self):
        (flock, flocks), (dlock, ours) = self.hold_both("--lease", "2s")
        work, our_work = self.pidfd(flocks), self.pidfd(ours)
        flock.kill(signal.SIGKILL)
        flock.wait()
        self.assertFalse(self.flock_free())
        self.assertFalse(wait_gone(work, 0))
        dlock.kill(signal.SIGKILL)
        dlock.wait()
        self.assertTrue(wait_gone(our_work, 5))
        self.assertFalse(self.dlock_free())  # the lease goes on for up to 2 s
        self.assertTrue(self.dlock_free("15"))

    def test_a_stopped_holder_keeps_flocks_lock_for_ever_and_ours_for_one_lease(self):
        for running, pid in self.hold_both("--lease", "1s"):
            running.kill(signal.SIGSTOP)
            os.kill(pid, signal.SIGSTOP)
        self.assertTrue(self.dlock_free("15"))  # after the lease
        self.assertFalse(self.flock_free())

    def test_a_deleted_file_lets_a_second_one_in_and_a_key_has_no_file(self):
        holders = list(self.hold_both())
        os.unlink(self.file)
        self.assertTrue(self.flock_free())
        self.assertFalse(self.dlock_free())
        self.assertEqual(2, len(holders))

    def test_each_run_has_a_higher_fence(self):
        fences = [int(self.dlock("run", "k", "--", "sh", "-c", "echo $DLOCK_FENCE").stdout) for _ in range(3)]
        self.assertEqual(sorted(set(fences)), fences)

    def test_whoever_waits_is_told_behind_whom(self):
        self.holder("k", "--note", "the nightly one")
        waiting = self.start("run", "k", "--", "true")
        waiting.err.until("the nightly one")


class Move(Both):
    BOTH = ["-n", "file", "dlock", "run", "-n", "k", "--"]

    def test_both_locks_exclude_users_of_either(self):
        os.mkdir(self.path("bin"))
        os.symlink(os.environ["DLOCK_BINARY"], self.path("bin/dlock"))
        self.env["PATH"] = self.path("bin") + ":" + self.env["PATH"]
        self.assertEqual(0, self.wait_for("flock", *self.BOTH, "true"))
        old = self.begin("flock", self.file, *HOLD)
        old.out.line()
        self.assertEqual(1, self.wait_for("flock", *self.BOTH, "true"))
        old.close_stdin()
        old.wait()
        self.holder("k")
        self.assertEqual(75, self.wait_for("flock", *self.BOTH, "true"))


if __name__ == "__main__":
    unittest.main()
