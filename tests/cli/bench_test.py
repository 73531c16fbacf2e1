# SPDX-License-Identifier: Apache-2.0
"""bench: its figures, its end by Ctrl-C, and that nothing is left of it."""
import json
import signal
import unittest

from support import Case, Redis

SHORT = ("--seconds", "0.3", "--callers", "4")


class Bench(Case):
    def parts(self, done):
        self.assertExit(0, done)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def check_figures(self, **env):
        parts = self.parts(self.dlock("bench", "--local", "--json", *SHORT, env=env))
        self.assertEqual([("acquire + release", 1), ("acquire + release", 4), ("hand-over", 2)],
                         [(part["what"], part["callers"]) for part in parts])
        for part in parts:
            self.assertGreater(part["count"], 0)
            self.assertTrue(0 < part["p50Ms"] <= part["p99Ms"] <= 10000, part)
            self.assertTrue(300 <= part["tookMs"] < 20000, part)
            self.assertAlmostEqual(part["perSecond"], part["count"] / part["tookMs"] * 1000, delta=1)

    def test_sqlite(self):
        self.assertExit(0, self.dlock("run", "other", "--", "true"))
        self.check_figures()
        self.assertEqual(["other"], [lock["key"] for lock in self.json("list", "--all")["locks"]])

    def test_redis(self):
        redis = Redis(self)
        self.check_figures(DLOCK_STORE=redis.url)
        self.assertEqual("dlock:floor", redis.command("KEYS", "*"))

    def test_redis_plain(self):
        redis = Redis(self)
        self.check_figures(DLOCK_STORE=redis.url + "?layout=plain")
        self.assertEqual("", redis.command("KEYS", "*"))

    def test_memory(self):
        self.check_figures(DLOCK_STORE="memory:x")

    def test_text(self):
        done = self.dlock("bench", *SHORT, "--prefix", "jobs/", env={"DLOCK_STORE": "memory:x"})
        self.assertExit(0, done)
        self.assertRegex(done.stdout, r"(?m)^WHAT +CALLERS +COUNT +A SECOND +P50 +P99$")
        self.assertRegex(done.stdout, r"(?m)^acquire \+ release +4 +\d+ +\d+ +[\d.]+ ms +[\d.]+ ms$")
        self.assertRegex(done.stdout, r"(?m)^hand-over +2 +\d+ +\d+ +[\d.]+ ms +[\d.]+ ms$")

    def test_ctrl_c_prints_what_it_has_and_leaves_nothing(self):
        redis = Redis(self)
        running = self.start("bench", "--json", "--seconds", "3600", env={"DLOCK_STORE": redis.url})
        with_key = "EVAL", "return redis.call('EXISTS', 'dlock:floor')", "0"
        while redis.command(*with_key) != "1":  # it has locked something; command() has a deadline
            self.assertIsNone(running.process.poll())
        running.kill(signal.SIGINT)
        part = json.loads(running.out.line())
        self.assertEqual(("acquire + release", 1), (part["what"], part["callers"]))
        self.assertGreater(part["count"], 0)
        self.assertEqual(0, running.wait())
        self.assertEqual("dlock:floor", redis.command("KEYS", "*"))

    def test_refusals(self):
        for bad in (("--callers", "0"), ("--callers", "x"), ("--seconds", "0"), ("--seconds", "2s"),
                    ("--seconds", "9999")):
            self.assertExit(64, self.dlock("bench", *bad))
        redis = Redis(self)
        redis.end()
        done = self.dlock("bench", *SHORT, env={"DLOCK_STORE": redis.url})
        self.assertExit(69, done)
        self.assertEqual("", done.stdout)


if __name__ == "__main__":
    unittest.main()
