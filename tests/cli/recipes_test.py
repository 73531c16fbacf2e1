# SPDX-License-Identifier: Apache-2.0
"""Readers and writers, permits, hold-off, once, lead, resign, configure."""
import json
import os
import signal
import subprocess
import time
import unittest

from support import HOLD, Case, Redis, wait_gone
from terminal import Terminal


def report_of(case, verb, *words):
    """The JSON object of a verb that runs a command."""
    done = case.dlock(verb, "--json", *words)
    case.assertExit(0, done)
    return json.loads(done.stdout)


class Modes(Case):
    def test_readers_hold_together_and_the_writer_alone(self):
        first = self.holder("k", "-s")
        self.assertExit(0, self.dlock("run", "-n", "--shared", "k", "--", "true"))
        busy = self.dlock("run", "-n", "-x", "k", "--", "true")
        self.assertExit(75, busy)
        self.assertIn("read by", busy.stderr)
        first.close_stdin()
        self.assertEqual(0, first.wait())
        self.holder("k", "--exclusive")
        self.assertExit(75, self.dlock("run", "-n", "-s", "k", "--", "true"))
        self.assertEqual("write", self.show()["holders"][0]["mode"])
        self.assertEqual("read_write", self.show()["kind"])

    def test_another_kind_is_refused_with_a_hint(self):
        self.holder("k", "-s")
        done = self.dlock("run", "-n", "k", "--", "true")
        self.assertExit(78, done)
        self.assertIn("-s reads and -x writes", done.stderr)

    def test_permits(self):
        first = self.holder("k", "--permits", "2")
        self.holder("k", "--permits", "2")
        busy = self.dlock("run", "-n", "--permits", "2", "k", "--", "true")
        self.assertExit(75, busy)
        self.assertIn("2 of 2 permits", busy.stderr)
        self.assertExit(78, self.dlock("run", "-n", "--permits", "3", "k", "--", "true"))
        text = self.dlock("show", "k").stdout
        self.assertRegex(text, r"permits +2 of 2 are out")
        self.assertRegex(text, r"mode +permit")
        self.assertIn("permit, 2 of 2 out", self.dlock("list").stdout)
        lock = self.show()
        self.assertEqual((2, "permits"), (lock["permits"], lock["kind"]))
        self.assertEqual(["permit"] * 2, [holder["mode"] for holder in lock["holders"]])
        first.close_stdin()
        first.wait()
        self.assertExit(0, self.dlock("run", "-n", "--permits", "2", "k", "--", "true"))

    def test_bad_numbers_of_permits_name_the_field(self):
        for number in ("0", "-1", "1000001", "2.5", "x"):
            done = self.dlock("run", "--permits=" + number, "k", "--", "true")
            self.assertExit(64, done)
            self.assertIn("--permits", done.stderr)
        self.assertExit(64, self.dlock("run", "-s", "--permits", "2", "k", "--", "true"))
        self.assertExit(64, self.dlock("run", "-s", "-x", "k", "--", "true"))

    def test_acquire_takes_modes_and_says_which(self):
        self.assertEqual("shared", self.json("acquire", "-s", "r")["mode"])
        self.assertEqual("write", self.json("acquire", "-x", "w")["mode"])
        taken = self.json("acquire", "--permits", "1", "p")
        self.assertEqual("permit", taken["mode"])
        self.assertExit(75, self.dlock("acquire", "-n", "--permits", "1", "p"))
        done = self.dlock("release", "-", input=taken["id"], stdin=None)
        self.assertExit(0, done)
        self.assertExit(0, self.dlock("acquire", "-n", "--permits", "1", "p"))
        self.assertEqual("exclusive", self.json("acquire", "m")["mode"])


class HoldOff(Case):
    def test_after_the_release_nobody_gets_it_for_a_while(self):
        self.assertExit(0, self.dlock("run", "--hold-off", "1h", "k", "--", "true"))
        busy = self.dlock("run", "-n", "k", "--", "true")
        self.assertExit(75, busy)
        self.assertIn("held off", busy.stderr)
        self.assertTrue(self.show()["holders"][0]["heldOff"])
        self.assertRegex(self.dlock("show", "k").stdout, r"state +held off")
        self.assertIn("held off", self.dlock("list").stdout)

    def test_at_least_counts_from_the_grant(self):
        begun = time.monotonic()
        self.assertExit(0, self.dlock("run", "--at-least", "1500ms", "k", "--", "true"))
        self.assertExit(75, self.dlock("run", "-n", "k", "--", "true"))
        self.assertExit(0, self.dlock("run", "--wait", "20s", "k", "--", "true"))
        self.assertGreater(time.monotonic() - begun, 1.4)

    def test_bad_durations(self):
        for option in ("--hold-off", "--at-least"):
            done = self.dlock("run", option, "5", "k", "--", "true")
            self.assertExit(64, done)
            self.assertIn(option, done.stderr)


class IfBusy(Case):
    def test_skip_is_no_failure_and_says_who(self):
        self.holder("k", "--note", "the first")
        done = self.dlock("run", "--if-busy", "skip", "--status-file", self.path("status"), "k", "--", "false")
        self.assertExit(0, done)
        self.assertEqual(1, len([line for line in done.stderr.splitlines() if "the first" in line]))
        self.assertTrue(done.stderr.splitlines()[-1].endswith("; skipped"))
        self.assertEqual(("skipped", 0), tuple(self.status("status")[n] for n in ("outcome", "exit")))
        report = report_of(self, "run", "--if-busy", "skip", "-w", "0.1", "k", "--", "false")
        self.assertEqual("skipped", report["outcome"])
        self.assertExit(3, self.dlock("run", "--if-busy", "skip", "free", "--", "sh", "-c", "exit 3"))

    def test_fail_and_wait(self):
        running = self.holder()
        self.assertExit(75, self.dlock("run", "--if-busy", "fail", "k", "--", "true"))
        waiting = self.start("run", "--if-busy", "wait", "k", "--", "true")
        waiting.err.until("waiting for k")
        running.close_stdin()
        self.assertEqual(0, waiting.wait())

    def test_bad_words(self):
        for words in (("--if-busy", "perhaps"), ("--if-busy", "wait", "-n")):
            done = self.dlock("run", *words, "k", "--", "true")
            self.assertExit(64, done)
            self.assertIn("--if-busy", done.stderr)


class OncePer(Case):
    RUN = ("sh", "-c", "echo ran")

    def test_not_again_within_the_time(self):
        self.assertEqual("ran\n", self.dlock("run", "--once-per", "1h", "k", "--", *self.RUN).stdout)
        again = self.dlock("run", "--once-per", "1h", "--status-file", self.path("status"), "k", "--", *self.RUN)
        self.assertExit(0, again)
        self.assertEqual("", again.stdout)
        self.assertIn("k was done by sh@", again.stderr)
        status = self.status("status")
        self.assertEqual("done_before", status["outcome"])
        self.assertEqual("sh", status["by"]["service"])
        self.assertEqual("ran\n", self.dlock("run", "k", "--", *self.RUN).stdout)  # an ordinary run does not look

    def test_a_shorter_time_than_the_last_run_said(self):
        self.assertExit(0, self.dlock("run", "--once-per", "1h", "k", "--", "true"))
        end = time.monotonic() + 20
        while self.dlock("run", "--once-per", "50ms", "k", "--", *self.RUN).stdout == "":
            self.assertLess(time.monotonic(), end)

    def test_a_failed_run_is_made_up_for(self):
        self.assertExit(4, self.dlock("run", "--once-per", "1h", "k", "--", "sh", "-c", "exit 4"))
        self.assertEqual("ran\n", self.dlock("run", "--once-per", "1h", "k", "--", *self.RUN).stdout)

    def test_killed_in_the_middle_the_next_one_runs(self):
        first = self.holder("k", "--once-per", "1h", "--lease", "1s")
        second = self.start("run", "--once-per", "1h", "k", "--", *self.RUN)
        second.err.until("waiting for k")
        first.kill(signal.SIGKILL)
        self.assertEqual("ran", second.out.line())
        self.assertEqual(0, second.wait())

    def test_who_waited_for_a_success_does_not_run(self):
        first = self.holder("k", "--once-per", "1h")
        second = self.start("run", "--once-per", "1h", "k", "--", *self.RUN)
        second.err.until("waiting for k")
        first.close_stdin()
        self.assertEqual(0, second.wait())
        second.err.until("k was done by")

    def test_what_does_not_go_together(self):
        for words in (("-s",), ("--permits", "2"), ("--adopt", "file")):
            done = self.dlock("run", "--once-per", "1h", *words, "k", "--", "true")
            self.assertExit(64, done)
            self.assertIn("--once-per", done.stderr)
        self.assertExit(64, self.dlock("run", "--once-per", "0s", "k", "--", "true"))


class Once(Case):
    def test_the_first_runs_and_the_others_get_its_output(self):
        first = self.dlock("once", "--note", "by hand", "k", "--", "sh", "-c", "echo the result; echo log >&2")
        self.assertExit(0, first)
        self.assertEqual("the result\n", first.stdout)
        again = self.dlock("once", "k", "--", "false")
        self.assertExit(0, again)
        self.assertEqual("the result\n", again.stdout)
        self.assertIn("k was done by sh@", again.stderr)
        self.assertIn('"by hand"', again.stderr)
        report = report_of(self, "once", "k", "--", "false")
        self.assertEqual(("done_before", "the result\n", 0), tuple(report[n] for n in ("outcome", "result", "exit")))
        self.assertEqual("sh", report["by"]["service"])
        self.assertRegex(report["at"], r"^\d{4}-\d\d-\d\dT")

    def test_json_of_the_run_itself(self):
        report = report_of(self, "once", "k", "--", "echo", "x")
        self.assertEqual(("ran", "x\n", 0), tuple(report[n] for n in ("outcome", "result", "commandExit")))

    def test_output_of_4096_bytes_and_one_more(self):
        done = self.dlock("once", "much", "--", "head", "-c", "4097", "/dev/zero")
        self.assertExit(64, done)
        self.assertIn("4097 bytes", done.stderr)
        self.assertEqual(4097, len(done.stdout))
        self.assertEqual([], self.show("much")["holders"])
        self.assertEqual("again", self.dlock("once", "much", "--", "printf", "again").stdout)
        done = self.dlock("once", "most", "--", "head", "-c", "4096", "/dev/zero")
        self.assertExit(0, done)
        self.assertEqual("\0" * 4096, self.dlock("once", "most", "--", "false").stdout)
        done = self.dlock("once", "flood", "--", "head", "-c", "1000000", "/dev/zero")
        self.assertExit(64, done)
        self.assertEqual(1000000, len(done.stdout))

    def test_a_failed_run_keeps_nothing(self):
        done = self.dlock("once", "k", "--", "sh", "-c", "echo half; exit 3")
        self.assertExit(3, done)
        self.assertEqual("half\n", done.stdout)
        self.assertEqual("whole\n", self.dlock("once", "k", "--", "echo", "whole").stdout)

    def test_the_result_runs_out(self):
        self.assertExit(0, self.dlock("once", "--keep", "50ms", "k", "--", "echo", "1"))
        end = time.monotonic() + 20
        while self.dlock("once", "k", "--", "echo", "2").stdout == "1\n":
            self.assertLess(time.monotonic(), end)
        self.assertExit(64, self.dlock("once", "--keep", "0s", "k", "--", "true"))

    def test_killed_in_the_middle_the_next_one_runs(self):
        first = self.start("once", "--lease", "1s", "k", "--", *HOLD)
        self.assertEqual("ready", first.out.line())  # it is shown while the command runs
        second = self.start("once", "k", "--", "echo", "mine")
        second.err.until("waiting for k")
        first.kill(signal.SIGKILL)
        self.assertEqual("mine", second.out.line())
        self.assertEqual(0, second.wait())

    def test_what_it_leaves_running_does_not_hold_it_up(self):
        fifo = self.fifo()
        done = self.start("once", "k", "--", "sh", "-c", f"cat {fifo} & echo $!")
        left = int(done.out.line())
        self.assertEqual(0, done.wait())
        self.assertFalse(wait_gone(self.pidfd(left), 0))
        os.kill(left, signal.SIGKILL)

    def test_lost_in_the_middle(self):
        running = self.start("once", "--lease", "1s", "k", "--", *HOLD)
        self.assertEqual("ready", running.out.line())
        seen = self.show()["holders"][0]["publicId"]
        self.assertExit(0, self.dlock("force-release", "k", "--seen", seen))
        self.assertEqual(76, running.wait())
        self.assertEqual("anew\n", self.dlock("once", "k", "--", "echo", "anew").stdout)

    def test_stdout_that_takes_nothing(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = self.dlock("once", "k", "--", "echo", "x", stdout=full, stderr=subprocess.PIPE)
        self.assertExit(125, done)
        self.assertIn("stdout", done.stderr)

    def test_no_command(self):
        self.assertExit(64, self.dlock("once", "k"))
        self.assertExit(127, self.dlock("once", "k", "--", "no-such-command"))
        self.assertEqual([], self.show()["holders"])


class Lead(Case):
    LEADER = ("sh", "-c", "echo leads $DLOCK_FENCE; exec cat")

    def leader(self, *options):
        return self.start("lead", "--lease", "1500ms", *options, "k", "--", *self.LEADER)

    def fence(self, running):
        word, fence = running.out.line().split()
        self.assertEqual("leads", word)
        return int(fence)

    def resign(self):
        seen = self.show()["holders"][0]["publicId"]
        done = self.dlock("resign", "k", "--seen", seen)
        self.assertExit(0, done)
        return done

    def test_ends_with_the_status_of_its_command(self):
        self.assertExit(5, self.dlock("lead", "k", "--", "sh", "-c", "exit 5"))
        self.assertExit(137, self.dlock("lead", "k", "--", "sh", "-c", "kill -9 $$"))
        self.assertExit(127, self.dlock("lead", "k", "--", "no-such-command"))
        self.assertExit(64, self.dlock("lead", "k"))
        self.assertEqual([], self.show()["holders"])

    def test_the_other_leads_when_the_leader_dies(self):
        first = self.leader()
        fence = self.fence(first)
        second = self.leader()
        second.err.until("waiting for k")
        first.kill(signal.SIGKILL)
        self.assertGreater(self.fence(second), fence)
        second.close_stdin()
        self.assertEqual(0, second.wait())

    def test_resign_hands_over_and_the_old_leader_stands_again(self):
        first = self.leader()
        fences = [self.fence(first)]
        second = self.leader()
        second.err.until("waiting for k")
        self.assertIn("no leader now", self.resign().stdout)
        first.err.until("no longer leading k")
        fences.append(self.fence(second))
        first.err.until("waiting for k")
        self.resign()
        fences.append(self.fence(first))
        self.assertEqual(sorted(set(fences)), fences)
        first.kill(signal.SIGTERM)
        self.assertEqual(128 + signal.SIGTERM, first.wait())

    def test_stopped_leader_ends_its_command_on_resume_and_stands_again(self):
        first = self.start("lead", "--lease", "1s", "k", "--", "sh", "-c", "echo $$; exec cat")
        command = self.pidfd(int(first.out.line()))
        first.kill(signal.SIGSTOP)
        second = self.leader()
        self.fence(second)
        first.kill(signal.SIGCONT)
        self.assertTrue(wait_gone(command, 2.0))
        first.err.until("waiting for k")
        second.close_stdin()
        self.assertEqual(0, second.wait())
        int(first.out.line())

    def test_restart_starts_the_command_again(self):
        running = self.start("lead", "--restart", "k", "--", "sh", "-c", "echo leads $DLOCK_FENCE; exit 3")
        first, second = self.fence(running), self.fence(running)
        self.assertGreater(second, first)
        running.kill(signal.SIGTERM)
        self.assertIn(running.wait(), (128 + signal.SIGTERM, 3))

    def test_interrupt_while_it_waits(self):
        self.holder()
        waiting = self.leader()
        waiting.err.until("waiting for k")
        waiting.kill(signal.SIGINT)
        self.assertEqual(130, waiting.wait())
        self.assertEqual(0, self.show()["waiterCount"])

    def test_limited_wait(self):
        self.holder()
        self.assertExit(75, self.dlock("lead", "-n", "k", "--", "true"))

    def test_resign_asks_as_force_release_does(self):
        self.holder()
        done = self.dlock("resign", "k")
        self.assertExit(64, done)
        self.assertIn("resign needs --seen", done.stderr)
        self.assertExit(64, self.dlock("resign", "k", "--seen", "x"))
        terminal = Terminal(self, ["resign", "k"])
        terminal.until("step down? [y/N]")
        terminal.type("n\n")
        self.assertEqual(75, terminal.wait())
        self.assertExit(75, self.dlock("resign", "k", "--seen", "0123456789ab"))
        self.assertExit(0, self.dlock("resign", "free-key"))


class SilentServer(Case):
    def setUp(self):
        super().setUp()
        self.redis = Redis(self)
        self.env["DLOCK_STORE"] = self.redis.url
        self.stop = ("sh", "-c", f"echo x; kill -STOP {self.redis.process.pid}")

    def test_a_success_that_the_store_did_not_confirm_is_69(self):
        done = self.dlock("run", "--once-per", "1h", "--status-file", self.path("status"), "k", "--", *self.stop)
        self.assertExit(69, done)
        self.assertIn("not certain", done.stderr)
        self.assertEqual("unknown_outcome", self.status("status")["error"]["code"])
        os.kill(self.redis.process.pid, signal.SIGCONT)
        done = self.dlock("once", "other", "--", *self.stop)
        self.assertExit(69, done)
        self.assertEqual("x\n", done.stdout)

    def test_a_leader_outlasts_an_outage(self):
        running = self.start("lead", "--lease", "1s", "k", "--", "sh", "-c", "echo $DLOCK_FENCE; exec cat")
        first = int(running.out.line())
        os.kill(self.redis.process.pid, signal.SIGSTOP)
        running.err.until("no longer leading k")
        running.err.until("waiting for k: unavailable")
        os.kill(self.redis.process.pid, signal.SIGCONT)
        self.assertGreater(int(running.out.line()), first)
        running.close_stdin()
        self.assertEqual(0, running.wait())


class Configure(Case):
    def test_sets_the_number_for_good(self):
        done = self.dlock("configure", "k", "--permits", "2")
        self.assertExit(0, done)
        self.assertEqual("k has 2 permits\n", done.stdout)
        self.holder("k", "--permits", "configured")
        self.holder("k", "--permits", "configured")
        self.assertExit(75, self.dlock("run", "-n", "--permits", "configured", "k", "--", "true"))
        self.assertEqual({"key": "k", "permits": 3}, self.json("configure", "k", "--permits", "3", "--if-current", "2"))
        self.assertExit(0, self.dlock("run", "-n", "--permits", "configured", "k", "--", "true"))
        self.assertExit(78, self.dlock("configure", "k", "--permits", "4", "--if-current", "2"))
        self.assertExit(78, self.dlock("configure", "k", "--permits", "4", "--if-current", "0"))
        self.assertEqual(3, self.show()["permits"])

    def test_a_key_of_another_kind_or_that_nobody_configured(self):
        self.holder("mutex")
        self.assertExit(78, self.dlock("configure", "mutex", "--permits", "2"))
        self.assertExit(78, self.dlock("run", "-n", "--permits", "configured", "new", "--", "true"))

    def test_bad_numbers(self):
        for words in (("--permits", "0"), ("--permits", "1000001"), ("--permits", "2", "--if-current", "-1"), ()):
            done = self.dlock("configure", "k", *words)
            self.assertExit(64, done)
            self.assertIn("--permits" if len(words) < 4 else "--if-current", done.stderr)


if __name__ == "__main__":
    unittest.main()
