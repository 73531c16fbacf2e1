# SPDX-License-Identifier: Apache-2.0
"""dlock run: exit codes, environment, descriptors, signals, files."""
import json
import os
import signal
import stat
import subprocess
import sys
import unittest

from support import DLOCK, HOLD, Case, wait_gone


class ExitCodes(Case):
    def test_own_status(self):
        for code in (0, 1, 7, 75, 255):
            self.assertExit(code, self.dlock("run", "k", "--", "sh", "-c", f"exit {code}"))

    def test_ended_by_a_signal(self):
        for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGINT):
            done = self.dlock("run", "k", "--", "sh", "-c", f"kill -{int(number)} $$")
            self.assertExit(128 + number, done)

    def test_not_found_and_not_executable(self):
        self.assertExit(127, self.dlock("run", "k", "--", "no-such-command"))
        plain = self.path("plain")
        with open(plain, "w", encoding="utf-8"):
            pass
        self.assertExit(126, self.dlock("run", "k", "--", plain))
        self.assertEqual([], self.show()["holders"])

    def test_busy_is_75_or_the_chosen_code(self):
        self.holder()
        self.assertExit(75, self.dlock("run", "-n", "k", "--", "true"))
        self.assertExit(75, self.dlock("run", "-w", "0.1", "k", "--", "true"))
        self.assertExit(75, self.dlock("run", "--wait", "100ms", "k", "--", "true"))
        self.assertExit(9, self.dlock("run", "-n", "-E", "9", "k", "--", "true"))
        self.assertExit(0, self.dlock("run", "-w", "0.1", "--conflict-exit-code", "0", "k", "--", "false"))

    def test_conflict_code_only_says_not_had(self):
        self.assertExit(3, self.dlock("run", "-E", "9", "k", "--", "sh", "-c", "exit 3"))
        self.assertExit(64, self.dlock("run", "-E", "9", "--lease", "0s", "k", "--", "true"))


class Environment(Case):
    def test_key_fence_and_lease_file(self):
        done = self.dlock("run", "a/%0Ab", "--", "sh", "-c",
                          'echo "$DLOCK_KEY"; echo "$DLOCK_FENCE"; echo "$DLOCK_LEASE_FILE"; '
                          'stat -c %a "$DLOCK_LEASE_FILE"; cat "$DLOCK_LEASE_FILE"')
        self.assertExit(0, done)
        key, fence, path, mode, lease_id = done.stdout.splitlines()
        self.assertEqual("a/%0Ab", key)
        self.assertGreater(int(fence), 0)
        self.assertEqual("600", mode)
        self.assertTrue(lease_id.startswith("dl1_"))
        self.assertFalse(os.path.exists(path))
        self.assertNotIn(lease_id, done.stderr)

    def test_inherited_values_do_not_leak_in(self):
        done = self.dlock("run", "k", "--", "sh", "-c", 'echo "$DLOCK_KEY $DLOCK_FENCE"',
                          env={"DLOCK_KEY": "other", "DLOCK_FENCE": "1"})
        key, fence = done.stdout.split()
        self.assertEqual("k", key)
        self.assertNotEqual("1", fence)

    def test_command_can_renew_by_the_lease_file(self):
        self.assertExit(0, self.dlock("run", "k", "--", DLOCK, "renew", "--lease", "40s"))

    def test_command_gets_none_of_our_descriptors(self):
        # What the caller gave on purpose (here its pipe) is passed on.
        reading, writing = os.pipe()
        self.addCleanup(os.close, reading)
        self.addCleanup(os.close, writing)
        done = self.dlock("run", "k", "--", "sh", "-c", "for f in /proc/$$/fd/*; do readlink $f; done",
                          pass_fds=(writing,))
        names = done.stdout.split()
        ours = ("locks.db", "anon_inode", "socket", "/dev/tty")
        self.assertEqual([], [name for name in names if any(part in name for part in ours)])
        given = os.readlink(f"/proc/self/fd/{writing}")
        self.assertIn(given, names)
        self.assertLessEqual(len(names), 5, names)

    def test_command_gets_the_signal_mask_as_it_was(self):
        done = self.dlock("run", "k", "--", "grep", "-E", "SigBlk|SigIgn", "/proc/self/status",
                          restore_signals=True)
        self.assertEqual({"0000000000000000"}, {line.split()[1] for line in done.stdout.splitlines()})

    def test_lock_ends_with_the_direct_command(self):
        fifo = self.fifo()
        done = self.dlock("run", "k", "--", "sh", "-c", f"cat {fifo} >/dev/null 2>&1 & echo $!")
        self.assertExit(0, done)
        left = int(done.stdout)
        self.assertEqual([], self.show()["holders"])
        self.assertFalse(wait_gone(self.pidfd(left), 0))  # left alone: the lock was not lost
        os.kill(left, signal.SIGKILL)


class Turns(Case):
    def test_two_processes_in_turn_with_rising_fences(self):
        fences = []
        first = self.holder()
        second = self.start("run", "k", "--", "sh", "-c", "echo $DLOCK_FENCE; exec cat")
        second.err.until("waiting for k")
        fences.append(int(self.show()["holders"][0]["fence"]))
        first.close_stdin()
        self.assertEqual(0, first.wait())
        fences.append(int(second.out.line()))
        second.close_stdin()
        self.assertEqual(0, second.wait())
        fences.append(int(self.dlock("run", "k", "--", "sh", "-c", "echo $DLOCK_FENCE").stdout))
        self.assertEqual(sorted(set(fences)), fences)

    def test_killed_holder_is_followed_after_its_lease(self):
        first = self.holder("k", "--lease", "1s")
        second = self.start("run", "k", "--", "echo", "mine")
        second.err.until("waiting for k")
        first.kill(signal.SIGKILL)
        self.assertEqual("mine", second.out.line())
        self.assertEqual(0, second.wait())


class Signals(Case):
    def test_each_is_forwarded_once(self):
        # Blocked and waited for: a trap of the shell can miss the moment before its `read`.
        names = ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2")
        script = ("import signal, sys\n"
                  f"wanted = {{getattr(signal, 'SIG' + name) for name in {names}}}\n"
                  "signal.pthread_sigmask(signal.SIG_BLOCK, wanted)\n"
                  "print('ready', flush=True)\n"
                  "for _ in wanted: print('got', signal.Signals(signal.sigwait(wanted)).name, flush=True)\n"
                  "sys.stdin.readline()\n"
                  "sys.exit(6 if signal.sigpending() else 5)\n")
        running = self.start("run", "k", "--", sys.executable, "-c", script)
        self.assertTrue(running.out.line().startswith("ready"))
        for name in names:
            running.kill(getattr(signal, "SIG" + name))
            self.assertEqual(f"got SIG{name}", running.out.line())
        running.process.stdin.write(b"\n")
        running.process.stdin.flush()
        self.assertEqual(5, running.wait())
        self.assertEqual("", running.out.text)

    def test_interrupt_while_it_runs(self):
        running = self.holder()
        running.kill(signal.SIGINT)
        self.assertEqual(130, running.wait())
        self.assertEqual([], self.show()["holders"])

    def test_interrupt_while_it_waits(self):
        self.holder()
        waiting = self.start("run", "--status-file", self.path("status"), "k", "--", "true")
        waiting.err.until("waiting for k")
        waiting.kill(signal.SIGINT)
        self.assertEqual(130, waiting.wait())
        self.assertEqual(0, self.show()["waiterCount"])
        self.assertEqual("not_had", self.status("status")["outcome"])

    def test_what_the_caller_ignores_stays_ignored(self):
        running = self.start("run", "k", "--", *HOLD,
                             preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.assertEqual("ready", running.out.line())
        running.kill(signal.SIGHUP)
        running.close_stdin()
        self.assertEqual(0, running.wait())

    def test_works_with_sigchld_ignored_by_the_caller(self):
        running = self.start("run", "k", "--", "sh", "-c", "exit 4",
                             preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        self.assertEqual(4, running.wait())

    def test_kill_9_of_dlock_kills_the_command(self):
        running = self.start("run", "k", "--", "sh", "-c", "echo $$; exec cat")
        command = self.pidfd(int(running.out.line()))
        running.kill(signal.SIGKILL)
        self.assertTrue(wait_gone(command, 1.0))


class StatusFile(Case):
    def outcome(self, *words, code):
        done = self.dlock("run", "--status-file", self.path("status"), *words)
        self.assertExit(code, done)
        return self.status("status")

    def test_ran(self):
        status = self.outcome("k", "--", "sh", "-c", "exit 75", code=75)
        self.assertEqual(("ran", 75, 75, None),
                         tuple(status[n] for n in ("outcome", "exit", "commandExit", "commandSignal")))
        self.assertIsInstance(status["fence"], str)
        status = self.outcome("k", "--", "sh", "-c", "kill -9 $$", code=137)
        self.assertEqual(("ran", 137, None, 9),
                         tuple(status[n] for n in ("outcome", "exit", "commandExit", "commandSignal")))
        self.assertEqual(0o600, stat.S_IMODE(os.stat(self.path("status")).st_mode))

    def test_not_had_and_errors(self):
        self.holder()
        status = self.outcome("-n", "-E", "5", "k", "--", "true", code=5)
        self.assertEqual(("not_had", 5), (status["outcome"], status["exit"]))
        self.assertEqual("contended", status["error"]["code"])
        status = self.outcome("other", "--", "no-such-command", code=127)
        self.assertEqual(("error", "command_not_found"), (status["outcome"], status["error"]["code"]))
        status = self.outcome("--lease", "5", "k", "--", "true", code=64)
        self.assertEqual("invalid_argument", status["error"]["code"])

    def test_an_old_one_is_gone_while_the_command_runs(self):
        self.outcome("k", "--", "true", code=0)
        done = self.dlock("run", "--status-file", self.path("status"), "k", "--", "test", "!", "-e",
                          self.path("status"))
        self.assertExit(0, done)

    def test_one_that_cannot_be_written(self):
        done = self.dlock("run", "--status-file", self.path("missing/status"), "k", "--", "true")
        self.assertIn("missing/status", done.stderr)


class Json(Case):
    def test_outcome_is_the_last_line(self):
        done = self.dlock("run", "--json", "k", "--", "echo", "hello")
        self.assertExit(0, done)
        first, last = done.stdout.splitlines()
        self.assertEqual("hello", first)
        self.assertIn('"outcome":"ran"', last)

    def test_full_stdout_does_not_change_the_status_file(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = self.dlock("run", "--json", "--status-file", self.path("status"), "k", "--", "sh", "-c",
                              "exit 3", stdout=full, stderr=subprocess.PIPE)
        self.assertExit(125, done)
        self.assertEqual(("ran", 3), (self.status("status")["outcome"], self.status("status")["exit"]))

    def test_not_had(self):
        self.holder("k", "--note", "for ann")
        done = self.dlock("run", "-n", "--json", "k", "--", "true")
        self.assertExit(75, done)
        answer = json.loads(done.stdout)
        self.assertEqual("contended", answer["error"]["code"])
        self.assertEqual("none", answer["error"]["fault"])
        self.assertEqual("for ann", answer["lock"]["holders"][0]["note"])
        self.assertIn("--seen " + answer["lock"]["holders"][0]["publicId"], answer["freeWith"])


if __name__ == "__main__":
    unittest.main()
