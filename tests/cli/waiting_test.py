# SPDX-License-Identifier: Apache-2.0
"""What a waiter and a refused caller are told."""
import os
import shlex
import subprocess
import time
import unittest

from support import DLOCK, Case


class Messages(Case):
    def test_first_line_after_a_second_with_holder_age_place_and_wait_left(self):
        self.holder("k", "--note", "deploy of 2.14")
        begun = time.monotonic()
        waiting = self.start("run", "--wait", "1m", "k", "--", "true")
        line = waiting.err.until("left to wait")
        after = time.monotonic() - begun
        self.assertGreaterEqual(after, 0.9)
        self.assertLess(after, 3)
        self.assertIn(f"held by sh@{os.uname().nodename} (pid ", line)
        self.assertRegex(line, r"for \d+ (s|ms)")
        self.assertIn('"deploy of 2.14"', line)
        self.assertIn("place 1 of 1 in line", line)
        self.assertRegex(line, r"5\d s left to wait")

    def test_next_line_within_ten_seconds(self):
        self.holder()
        waiting = self.start("run", "k", "--", "true")
        waiting.err.until("waiting for k")
        waiting.err.line()
        begun = time.monotonic()
        waiting.err.until("waiting for k")
        self.assertLess(time.monotonic() - begun, 10)

    def test_notes_of_others_do_not_move_the_cursor(self):
        self.holder("k", "--note", "\x1b[2Jgone\u202e")
        done = self.dlock("run", "-n", "k", "--", "true")
        self.assertNotIn("\x1b", done.stderr)
        self.assertNotIn("\u202e", done.stderr)
        self.assertIn("%1B[2Jgone", done.stderr)

    def test_no_message_when_the_lock_is_free(self):
        done = self.dlock("run", "--local", "k", "--", "true")
        self.assertEqual("", done.stderr)


class FreeCommand(Case):
    def follow(self, output, key):
        """Runs the last line as it stands."""
        words = output.rstrip("\n").splitlines()[-1].strip()
        self.assertEqual(["dlock", "force-release", key, "--seen"], shlex.split(words)[:4])
        script = words.replace("dlock", shlex.quote(DLOCK), 1)
        done = subprocess.run(["sh", "-c", script], env=self.env, capture_output=True, text=True, timeout=20)
        self.assertExit(0, done)
        self.assertEqual([], self.show(key)["holders"])

    def test_busy_output_ends_with_it(self):
        self.assertExit(0, self.dlock("acquire", "it's a key $HOME"))
        self.follow(self.dlock("run", "-n", "it's a key $HOME", "--", "true").stderr, "it's a key $HOME")

    def test_after_a_wait(self):
        self.assertExit(0, self.dlock("acquire", "k"))
        self.follow(self.dlock("acquire", "-w", "0.05", "k").stderr, "k")

    def test_show_ends_with_it(self):
        self.assertExit(0, self.dlock("acquire", "a%0Ab"))
        self.follow(self.dlock("show", "a%0Ab").stdout, "a%0Ab")

    def test_names_the_store_of_the_command_line(self):
        url = "sqlite:" + self.path("other place.db")
        self.assertExit(0, self.dlock("acquire", "k", "--store", url))
        done = self.dlock("--store", url, "run", "-n", "k", "--", "true")
        self.assertExit(75, done)
        words = shlex.split(done.stderr.splitlines()[-1])
        self.assertEqual(["--store", url], words[-2:])

    def test_a_key_like_an_option(self):
        self.assertExit(0, self.dlock("acquire", "--", "-k"))
        done = self.dlock("acquire", "-n", "--", "-k")
        words = shlex.split(done.stderr.splitlines()[-1])
        self.assertExit(0, subprocess.run([DLOCK, *words[1:]], env=self.env, capture_output=True, text=True,
                                          timeout=20))
        self.assertEqual([], self.show("%2Dk")["holders"])


if __name__ == "__main__":
    unittest.main()
