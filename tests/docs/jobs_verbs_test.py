# SPDX-License-Identifier: Apache-2.0
"""docs/jobs.md: the samples with `once`, `lead`, `--permits`, `--once-per`."""
import signal
import unittest

from jobs import Jobs


class Nightly(Jobs):
    def test_many_nodes_start_it_and_it_runs_once(self):
        self.stand_in("make-report", "echo made >>reports")
        running = [self.start_job("nightly") for _ in range(4)]
        self.assertEqual([0] * 4, [one.wait(60) for one in running])
        self.assertExit(0, self.job("nightly"))  # a node whose clock is late
        self.assertEqual(["made"], self.lines("reports"))

    def test_the_next_node_makes_up_for_one_that_failed(self):
        self.stand_in("make-report", "mkdir failed 2>/dev/null && exit 4; echo made >>reports")
        running = [self.start_job("nightly") for _ in range(3)]
        self.assertEqual([0, 0, 4], sorted(one.wait(60) for one in running))
        self.assertEqual(["made"], self.lines("reports"))


class Migrate(Jobs):
    def test_done_once_and_again_only_after_it_failed(self):
        self.stand_in("run-migration", "exit 4")
        self.assertExit(4, self.job("migrate", "0042"))
        self.stand_in("run-migration", 'echo "$1" >>migrations; seq 2000')  # more than what is kept
        running = [self.start_job("migrate", "0042") for _ in range(3)]
        self.assertEqual([0] * 3, [one.wait(60) for one in running])
        self.assertExit(0, self.job("migrate", "0042"))
        self.assertExit(0, self.job("migrate", "0043"))
        self.assertEqual(["0042", "0043"], self.lines("migrations"))


class Leader(Jobs):
    def test_one_leads_and_the_next_takes_over(self):
        self.blocking("scheduler")
        first = self.start_job("leader")
        self.assertEqual("ready ", first.out.line())
        second = self.start_job("leader")
        second.err.until("place 1 of 1 in line")
        first.kill(signal.SIGTERM)
        self.assertEqual("ready ", second.out.line())
        first.wait()

    def test_resign_makes_the_next_one_lead(self):
        self.blocking("scheduler")
        first = self.start_job("leader")
        first.out.line()
        second = self.start_job("leader")
        second.err.until("place 1 of 1 in line")
        seen = self.show("scheduler")["holders"][0]["publicId"]
        self.assertExit(0, self.dlock("resign", "scheduler", "--seen", seen))
        self.assertEqual("ready ", second.out.line())

    def test_it_ends_with_its_command(self):
        self.stand_in("scheduler", "exit 3")
        self.assertExit(3, self.job("leader"))


class Limit(Jobs):
    def test_two_at_a_time(self):
        self.blocking("encode")
        first, second = (self.start_job("limit", name) for name in "ab")
        self.assertEqual({"ready a", "ready b"}, {first.out.line(), second.out.line()})
        third = self.start_job("limit", "c")
        third.err.until("place 1 of 1 in line")
        self.assertEqual(2, len(self.show("encoder")["holders"]))
        first.close_stdin()
        self.assertEqual("ready c", third.out.line())

    def test_the_number_belongs_to_the_key(self):
        self.stand_in("encode", "exit 0")
        self.assertExit(0, self.job("limit", "a"))
        self.assertExit(78, self.dlock("run", "--permits", "4", "encoder", "--", "true"))
        self.assertExit(0, self.dlock("configure", "encoder", "--permits", "4"))
        self.assertExit(0, self.dlock("run", "--permits", "configured", "encoder", "--", "true"))


class Refresh(Jobs):
    def test_many_ask_and_one_fetches(self):
        self.stand_in("fetch-rates", "echo fetched >>fetches; echo '{}'")
        running = [self.start_job("refresh_small") for _ in range(3)]
        self.assertEqual([0] * 3, [one.wait(60) for one in running])
        self.assertEqual(["{}"] * 3, [one.out.line() for one in running])
        self.assertEqual(["fetched"], self.lines("fetches"))


if __name__ == "__main__":
    unittest.main()
