# SPDX-License-Identifier: Apache-2.0
"""docs/jobs.md: the samples whose verbs and options are as old as the command."""
import os
import subprocess
import unittest

from jobs import Jobs
from support import DLOCK


class Deploy(Jobs):
    def test_one_at_a_time_and_the_note_says_whose(self):
        self.blocking("deploy-web")
        first = self.start_job("deploy", "2.14")
        self.assertEqual("ready 2.14", first.out.line())
        self.assertIn("deploy of 2.14 by ", self.show("deploy/web")["holders"][0]["note"])
        second = self.start_job("deploy", "2.15")
        self.assertIn("deploy of 2.14", second.err.until("deploy of 2.14"))  # it tells who is at it
        first.close_stdin()
        self.assertEqual(0, first.wait())
        self.assertEqual("ready 2.15", second.out.line())
        second.close_stdin()
        self.assertEqual(0, second.wait())


class Record(Jobs):
    def test_written_under_the_lock_and_refused_when_a_later_fence_was_there(self):
        database = {"DATABASE": self.path("accounts.db")}
        self.sqlite("CREATE TABLE accounts(id INTEGER PRIMARY KEY, balance, fence NOT NULL DEFAULT 0);"
                    "INSERT INTO accounts VALUES (17, 100, 0)")
        self.assertExit(0, self.job("record", "17", "150", env=database))
        self.assertEqual("150", self.sqlite("SELECT balance FROM accounts"))
        self.sqlite("UPDATE accounts SET fence = 9000000000000000000")
        refused = self.job("record", "17", "50", env=database)
        self.assertExit(1, refused)
        self.assertIn("refused", refused.stderr)
        self.assertEqual("150", self.sqlite("SELECT balance FROM accounts"))

    def sqlite(self, text):
        return subprocess.run(["sqlite3", self.path("accounts.db"), text], check=True, capture_output=True,
                              text=True, timeout=20).stdout.strip()


class Wrap(Jobs):
    def test_what_the_exit_code_means(self):
        self.stand_in("backup", "exit 3")
        self.assertExit(3, self.job("wrap"))
        self.assertEqual("ran", self.status("backup.status")["outcome"])
        self.stand_in("backup", "exit 0")
        self.assertExit(0, self.job("wrap"))
        self.blocking("backup")
        first = self.start_job("wrap")
        first.out.line()
        busy = self.job("wrap")
        self.assertExit(75, busy)
        self.assertIn("somebody else is at it", busy.stderr)
        self.assertEqual("not_had", self.status("backup.status")["outcome"])
        self.assertExit(0, self.dlock("force-release", "backup", "--seen",
                                      self.show("backup")["holders"][0]["publicId"]))
        # The first one learns of it by its release at the latest.
        first.close_stdin()
        self.assertEqual(76, first.wait())


class Webhook(Jobs):
    # Fails when another one is inside.
    HANDLE = 'mkdir inside || exit 9; echo "$1 $2" >>handled; rmdir inside'

    def test_each_delivery_once_and_one_after_the_other(self):
        self.stand_in("handle", self.HANDLE)
        deliveries = ["d1", "d2", "d1", "d3", "d2", "d1"]
        running = [self.start_job("webhook", "4711", delivery) for delivery in deliveries]
        self.assertEqual([0] * len(deliveries), [one.wait(60) for one in running])
        self.assertEqual(["4711 d1", "4711 d2", "4711 d3"], sorted(self.lines("handled")))

    def test_other_orders_do_not_wait(self):
        self.blocking("handle")
        first = self.start_job("webhook", "4711", "d1")
        self.assertEqual("ready 4711 d1", first.out.line())
        other = self.start_job("webhook", "4712", "d2")
        self.assertEqual("ready 4712 d2", other.out.line())

    def test_a_delivery_that_failed_is_tried_again(self):
        self.stand_in("handle", "exit 4")
        self.assertExit(4, self.job("webhook", "4711", "d1"))
        self.stand_in("handle", self.HANDLE)
        self.assertExit(0, self.job("webhook", "4711", "d1"))
        self.assertEqual(["4711 d1"], self.lines("handled"))


class Hold(Jobs):
    def test_without_a_process(self):
        self.assertExit(0, self.job("hold", "begin", "maintenance/db", "new disk"))
        self.assertEqual("new disk", self.show("maintenance/db")["holders"][0]["note"])
        self.assertExit(75, self.job("hold", "begin", "maintenance/db", "me too"))
        self.assertExit(75, self.dlock("run", "-n", "maintenance/db", "--", "true"))
        self.assertExit(0, self.job("hold", "end", "maintenance/db"))
        self.assertFalse(os.path.exists(self.path("hold.id")))
        self.assertExit(0, self.dlock("run", "-n", "maintenance/db", "--", "true"))

    def test_while_a_shell_is_open(self):
        self.blocking("shell")
        self.env["SHELL"] = self.path("shell")
        open_shell = self.start_job("hold_shell", "maintenance/db", "new disk")
        open_shell.out.line()
        self.assertEqual("new disk", self.show("maintenance/db")["holders"][0]["note"])
        open_shell.close_stdin()
        self.assertEqual(0, open_shell.wait())
        self.assertEqual([], self.show("maintenance/db")["holders"])


class Refresh(Jobs):
    def test_many_ask_and_one_fetches(self):
        self.stand_in("fetch-rates", "echo fetched >>fetches; echo '{}'")
        running = [self.start_job("refresh") for _ in range(6)]
        self.assertEqual([0] * 6, [one.wait(60) for one in running])
        self.assertEqual(["{}"] * 6, [one.out.line() for one in running])
        self.assertEqual(["fetched"], self.lines("fetches"))
        os.utime(self.path("rates.json"), (1, 1))  # old
        self.assertExit(0, self.job("refresh"))
        self.assertEqual(["fetched"] * 2, self.lines("fetches"))

    def test_a_fetch_that_fails_leaves_the_old_rates(self):
        self.stand_in("fetch-rates", "echo half; exit 5")
        failed = self.job("refresh")
        self.assertNotEqual(0, failed.returncode)
        self.assertEqual("", failed.stdout)
        self.assertFalse(os.path.exists(self.path("rates.json")))


class Steps(Jobs):
    def test_steps_and_a_lock_that_was_lost_between_them(self):
        self.stand_in("deploy-step-1", "echo one >>steps")
        self.stand_in("deploy-step-2", "echo two >>steps")
        self.assertExit(0, self.job("steps"))
        self.assertEqual(["one", "two"], self.lines("steps"))
        self.assertEqual([], self.show("deploy/web")["holders"])
        self.stand_in("deploy-step-1", f"seen=$({DLOCK} show --json deploy/web | tr ',' '\\n' | sed -n "
                      "'s/.*\"publicId\":\"\\([0-9a-f]*\\)\".*/\\1/p'); "
                      f"{DLOCK} force-release deploy/web --seen \"$seen\"")
        self.assertExit(76, self.job("steps"))
        self.assertEqual(["one", "two"], self.lines("steps"))


if __name__ == "__main__":
    unittest.main()
