# SPDX-License-Identifier: Apache-2.0
"""watch: what changes, on lines, as JSON and on a terminal; a store that goes away and comes back."""
import json
import os
import signal
import subprocess
import unittest

from support import Case, Redis
from terminal import Terminal

FAST = ("--interval", "100ms")
CTRL_C = "\x03"


class Watch(Case):
    def watch(self, *options):
        return self.start("watch", "--local", "--json", *FAST, *options)

    def watch_from_now(self):
        """One that has looked once, so that what comes is a change."""
        self.assertExit(0, self.dlock("acquire", "first"))
        watching = self.watch()
        self.event(watching, "held", key="first")
        return watching

    def event(self, watching, name, **wanted):
        """The next one of that name; others may come before it."""
        while True:
            event = json.loads(watching.out.line())
            if event["event"] == name and all(event.get(field) == value for field, value in wanted.items()):
                return event

    def ends(self, watching):
        watching.kill(signal.SIGINT)
        self.assertEqual(0, watching.wait())

    def check_a_life(self):
        watching = self.watch_from_now()
        holder = self.holder("k", "--note", "mine")
        granted = self.event(watching, "granted", key="k")
        self.assertEqual((holder.pid, "mine"), (granted["holder"]["pid"], granted["holder"]["note"]))
        self.assertRegex(granted["at"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        waiting = self.start("run", "k", "--", "sh", "-c", "echo ready; exec cat")
        self.event(watching, "waiting", waiterCount=1)
        holder.close_stdin()
        released = self.event(watching, "released")
        self.assertEqual(granted["holder"]["publicId"], released["holder"]["publicId"])
        self.assertEqual(waiting.pid, self.event(watching, "granted")["holder"]["pid"])
        self.event(watching, "waiting", waiterCount=0)
        waiting.close_stdin()
        self.event(watching, "released")
        self.ends(watching)

    def test_a_life_on_sqlite(self):
        self.check_a_life()

    def test_a_life_on_redis(self):
        self.env["DLOCK_STORE"] = Redis(self).url
        self.check_a_life()

    def test_expiry(self):
        self.assertExit(0, self.dlock("acquire", "--lease", "1s", "k"))
        watching = self.watch("k")
        self.event(watching, "held", key="k")
        self.event(watching, "expired", key="k")
        self.ends(watching)

    def test_a_lock_is_passed_on_by_force(self):
        self.assertExit(0, self.dlock("acquire", "k"))
        watching = self.watch("k")
        seen = self.event(watching, "held")["holder"]["publicId"]
        self.assertExit(0, self.dlock("force-release", "k", "--seen", seen))
        self.event(watching, "released")
        self.assertExit(0, self.dlock("acquire", "k"))
        self.assertNotEqual(seen, self.event(watching, "granted")["holder"]["publicId"])
        self.ends(watching)

    def test_only_what_was_asked_for(self):
        watching = self.watch("--prefix", "a/")
        for key in ("b/1", "a/1", "b/2", "a/2"):
            self.assertExit(0, self.dlock("acquire", key))
        self.assertEqual(["a/1", "a/2"], [json.loads(watching.out.line())["key"] for _ in range(2)])
        self.ends(watching)

    def test_lines(self):
        self.assertExit(0, self.dlock("acquire", "--note", "a \x1b note", "k"))
        watching = self.start("watch", "--local", *FAST)
        self.assertRegex(watching.out.line(), r'^\d\d:\d\d:\d\d  held +k to dlock@.* \(pid \d+\), fence \d+, '
                                              r'id [0-9a-f]{12}, "a %1B note"$')
        seen = self.show()["holders"][0]["publicId"]
        self.assertExit(0, self.dlock("force-release", "k", "--seen", seen))
        self.assertRegex(watching.out.line(), r"released +k by dlock@")
        self.ends(watching)
        self.assertEqual("", watching.process.stderr.read().decode())

    def test_a_store_that_goes_away_and_comes_back(self):
        redis = Redis(self)
        self.env["DLOCK_STORE"] = redis.url
        self.assertExit(0, self.dlock("acquire", "--lease", "5m", "k"))
        watching = self.watch("k")
        self.event(watching, "held")
        redis.process.send_signal(signal.SIGSTOP)
        event = self.event(watching, "unreachable")
        self.assertGreaterEqual(event["retryInMs"], 100)
        redis.process.send_signal(signal.SIGCONT)
        self.assertGreater(self.event(watching, "reachable")["afterMs"], 0)
        self.assertExit(0, self.dlock("force-release", "k", "--seen", self.show()["holders"][0]["publicId"]))
        self.event(watching, "released")
        self.ends(watching)

    def test_ctrl_c_while_the_store_is_silent(self):
        redis = Redis(self)
        self.env["DLOCK_STORE"] = redis.url
        self.assertExit(0, self.dlock("acquire", "k"))
        watching = self.watch("k")
        self.event(watching, "held")
        redis.process.send_signal(signal.SIGSTOP)
        watching.kill(signal.SIGINT)
        self.assertEqual(0, watching.wait(5))

    def test_terminal(self):
        terminal = Terminal(self, ["watch", "--local", *FAST])
        terminal.until("dlock watch sqlite:")
        terminal.until("IN LINE")
        self.assertExit(0, self.dlock("acquire", "some/key"))
        terminal.until("some/key")
        terminal.until("granted")
        terminal.type(CTRL_C)
        self.assertEqual(0, terminal.wait())

    def test_other_ends(self):
        watching = self.watch_from_now()
        watching.kill(signal.SIGTERM)
        self.assertEqual(143, watching.wait())
        for bad in (("k", "--prefix", "a"), ("--interval", "1"), ("--interval", "10ms"), ("%zz",)):
            self.assertExit(64, self.dlock("watch", *bad))
        redis = Redis(self, "--requirepass", "x")
        self.assertExit(77, self.dlock("watch", env={"DLOCK_STORE": redis.url}))
        self.assertExit(0, self.dlock("acquire", "k2"))
        reading, writing = os.pipe()
        os.close(reading)
        done = self.dlock("watch", stdout=writing, stderr=subprocess.PIPE)
        os.close(writing)
        self.assertExit(125, done)


if __name__ == "__main__":
    unittest.main()
