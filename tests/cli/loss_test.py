# SPDX-License-Identifier: Apache-2.0
"""The lock is lost while the command runs."""
import os
import signal
import time
import unittest

from support import HOLD, Case, Redis, wait_gone


class LossCase(Case):
    # The leader and a child of its group both ignore TERM, so only KILL ends them.
    STUBBORN = "trap '' TERM; cat {fifo} & echo $! $$; while :; do wait; done"

    def stubborn(self, *options):
        running = self.start("run", *options, "k", "--", "bash", "-c", self.STUBBORN.format(fifo=self.fifo()))
        child, leader = (int(word) for word in running.out.line().split())
        return running, [self.pidfd(child), self.pidfd(leader)]



class Loss(LossCase):
    def force(self):
        seen = self.show()["holders"][0]["publicId"]
        self.assertExit(0, self.dlock("force-release", "k", "--seen", seen))

    def test_forced_away_ends_with_76(self):
        running = self.holder("k", "--lease", "1500ms", "--status-file", self.path("status"))
        self.force()
        self.assertEqual(76, running.wait())
        status = self.status("status")
        self.assertEqual(("lost", 76, 15), (status["outcome"], status["exit"], status["commandSignal"]))
        self.assertTrue(status["reason"])

    def test_max_hold_ends_the_command_with_124(self):
        begun = time.monotonic()
        running, group = self.stubborn("--lease", "1s", "--max-hold", "2s", "--grace", "100ms",
                                       "--status-file", self.path("status"))
        self.assertEqual(124, running.wait())
        self.assertLess(time.monotonic() - begun, 4.0)
        self.assertGreater(time.monotonic() - begun, 1.7)
        for process in group:
            self.assertTrue(wait_gone(process, 0.5))
        status = self.status("status")
        self.assertEqual(("max_hold", 124, 9), (status["outcome"], status["exit"], status["commandSignal"]))
        self.assertIn("max_hold", status["reason"])
        self.assertExit(0, self.dlock("run", "-n", "k", "--", "true"))

    def test_max_hold_is_a_duration_the_lease_fits_in(self):
        for limit, says in (("0s", "--max-hold"), ("5", "--max-hold"), ("50ms", "max_hold")):
            done = self.dlock("run", "--max-hold", limit, "k", "--", "true")
            self.assertExit(64, done)
            self.assertIn(says, done.stderr)
        done = self.dlock("run", "--max-hold", "1s", "--grace", "900ms", "k", "--", "true")
        self.assertExit(64, done)
        self.assertIn("--grace", done.stderr)
        self.assertExit(0, self.dlock("run", "--max-hold", "20s", "k", "--", "true"))

    def test_76_whatever_the_status_of_the_command(self):
        running = self.start("run", "--lease", "1500ms", "k", "--", "bash", "-c",
                             "trap 'exit 0' TERM; echo ready; while :; do read; done")
        self.assertEqual("ready", running.out.line())
        self.force()
        self.assertEqual(76, running.wait())

    def test_76_when_the_command_ended_before_the_loss_was_noticed(self):
        running = self.holder("k", "--lease", "30s")
        self.force()
        running.close_stdin()
        self.assertEqual(76, running.wait())

    def test_group_that_ignores_term_is_killed_in_time(self):
        running, group = self.stubborn("--lease", "3s", "--grace", "200ms")
        begun = time.monotonic()
        self.force()
        for process in group:
            self.assertTrue(wait_gone(process, 3.0))
        self.assertLess(time.monotonic() - begun, 3.0)
        self.assertEqual(76, running.wait())

    def test_child_left_by_an_obedient_leader_is_killed(self):
        running = self.start("run", "--lease", "1500ms", "k", "--", "bash", "-c",
                             f"(trap '' TERM; exec cat {self.fifo()}) & echo $!; wait")
        child = self.pidfd(int(running.out.line()))
        self.force()
        self.assertEqual(76, running.wait())
        self.assertTrue(wait_gone(child, 1.0))

    def test_store_file_deleted(self):
        running, group = self.stubborn("--lease", "1500ms", "--grace", "100ms")
        for name in os.listdir(self.folder):
            if name.startswith("locks.db"):
                os.unlink(self.path(name))
        for process in group:
            self.assertTrue(wait_gone(process, 3.0))
        self.assertEqual(76, running.wait())

    def test_stopped_dlock_ends_the_command_on_resume(self):
        running = self.start("run", "--lease", "1s", "k", "--", "bash", "-c",
                             "trap '' TERM; echo $$; exec cat")
        command = self.pidfd(int(running.out.line()))
        running.kill(signal.SIGSTOP)
        # Had by another: so the lease of the stopped one has passed.
        self.assertExit(0, self.dlock("run", "--wait", "20s", "k", "--", "true"))
        self.assertFalse(wait_gone(command, 0))
        running.kill(signal.SIGCONT)
        self.assertTrue(wait_gone(command, 1.0))
        self.assertEqual(76, running.wait())

    def test_stopped_command_gets_term_too(self):
        running = self.holder("k", "--lease", "1500ms")
        os.kill(self.child_of(running.pid), signal.SIGSTOP)
        self.force()
        self.assertEqual(76, running.wait())

    def child_of(self, pid):
        with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
            return int(file.read().split()[0])

    def test_grace_must_leave_room_for_renewals(self):
        done = self.dlock("run", "--lease", "3s", "--grace", "1s", "k", "--", "true")
        self.assertExit(64, done)
        self.assertIn("--grace", done.stderr)
        self.assertExit(0, self.dlock("run", "--lease", "3s", "--grace", "800ms", "k", "--", "true"))
        self.assertExit(0, self.dlock("run", "--lease", "3s", "--grace", "0s", "k", "--", "true"))


class SilentServer(LossCase):
    def setUp(self):
        super().setUp()
        self.redis = Redis(self)
        self.env["DLOCK_STORE"] = self.redis.url

    def test_group_is_dead_before_the_lease_ends(self):
        running, group = self.stubborn("--lease", "2s", "--grace", "300ms")
        begun = time.monotonic()
        os.kill(self.redis.process.pid, signal.SIGSTOP)
        for process in group:
            self.assertTrue(wait_gone(process, 2.0))
        # The last renewal that succeeded was sent before the stop, so the lease ends within 2 s of it.
        self.assertLess(time.monotonic() - begun, 2.0)
        self.assertEqual(76, running.wait())

    def test_term_comes_a_grace_earlier(self):
        script = "trap 'echo term; exit 0' TERM; echo ready; while :; do read; done"
        running = self.start("run", "--lease", "2s", "--grace", "400ms", "--status-file", self.path("status"),
                             "k", "--", "bash", "-c", script)
        self.assertEqual("ready", running.out.line())
        os.kill(self.redis.process.pid, signal.SIGSTOP)
        self.assertEqual("term", running.out.line())
        self.assertEqual(76, running.wait())
        self.assertEqual("no renewal was answered in time", self.status("status")["reason"])

    def test_server_killed(self):
        running = self.holder("k", "--lease", "1s")
        self.redis.process.kill()
        self.assertEqual(76, running.wait())

    def test_a_short_silence_loses_nothing(self):
        running = self.holder("k", "--lease", "10s")
        os.kill(self.redis.process.pid, signal.SIGSTOP)
        # An event that takes a moment: a refused caller gives up on the silent server.
        self.assertExit(69, self.dlock("run", "-n", "other", "--", "true"))
        os.kill(self.redis.process.pid, signal.SIGCONT)
        self.assertExit(75, self.dlock("run", "-n", "k", "--", "true"))
        running.close_stdin()
        self.assertEqual(0, running.wait())


class Renewal(Case):
    def test_work_longer_than_the_lease_keeps_the_lock(self):
        running = self.holder("k", "--lease", "1s")
        # It is refused for three leases.
        self.assertExit(75, self.dlock("run", "--wait", "3s", "k", "--", *HOLD))
        running.close_stdin()
        self.assertEqual(0, running.wait())


if __name__ == "__main__":
    unittest.main()
