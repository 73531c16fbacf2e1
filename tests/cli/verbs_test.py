# SPDX-License-Identifier: Apache-2.0
"""acquire, renew, release, list, show, force-release."""
import json
import os
import stat
import subprocess
import unittest

from support import Case
from terminal import Terminal


class AcquireRenewRelease(Case):
    def take(self, *options, key="k"):
        done = self.dlock("acquire", *options, key)
        self.assertExit(0, done)
        return done.stdout

    def test_id_goes_through_stdin(self):
        lease_id = self.take()
        self.assertTrue(lease_id.startswith("dl1_"))
        self.assertExit(0, self.dlock("renew", "-", input=lease_id, stdin=None))
        self.assertExit(0, self.dlock("release", "-", input=lease_id, stdin=None))
        self.assertEqual([], self.show()["holders"])
        self.assertExit(76, self.dlock("release", "-", input=lease_id, stdin=None))
        self.assertExit(76, self.dlock("renew", "-", input=lease_id, stdin=None))

    def test_id_file(self):
        path = self.path("id")
        self.assertEqual("", self.take("--id-file", path))
        self.assertEqual(0o600, stat.S_IMODE(os.stat(path).st_mode))
        self.assertExit(0, self.dlock("renew", "--id-file", path, "--lease", "90s"))
        self.assertGreater(self.show()["holders"][0]["expiresInMs"], 60000)
        self.assertExit(0, self.dlock("release", env={"DLOCK_LEASE_FILE": path}))
        self.assertEqual([], self.show()["holders"])

    def test_json(self):
        answer = self.json("acquire", "--lease", "10s", "k")
        self.assertEqual({"key", "fence", "mode", "publicId", "usableForMs", "id"}, set(answer))
        self.assertIsInstance(answer["fence"], str)
        self.assertTrue(9000 <= answer["usableForMs"] < 10000, answer)
        holder = self.show()["holders"][0]
        self.assertEqual((answer["publicId"], answer["fence"]), (holder["publicId"], holder["fence"]))
        done = self.dlock("release", "--json", "-", input=answer["id"], stdin=None)
        self.assertEqual({"key": "k", "publicId": answer["publicId"], "outcome": "released"},
                         json.loads(done.stdout))

    def test_not_renewed_it_ends(self):
        self.take("--lease", "200ms")
        self.assertExit(0, self.dlock("run", "--wait", "10s", "k", "--", "true"))

    def test_id_is_never_an_argument(self):
        lease_id = self.take().strip()
        for verb in ("renew", "release"):
            done = self.dlock(verb, lease_id)
            self.assertExit(64, done)
            self.assertNotIn(lease_id, done.stderr)
        self.assertEqual(1, len(self.show()["holders"]))

    def test_bad_ids(self):
        good = self.take().strip()
        for text in ("", "dl1_", "nonsense", good[:-1], good + "A"):
            self.assertExit(64, self.dlock("release", "-", input=text, stdin=None))
        self.assertExit(64, self.dlock("release"))
        self.assertExit(78, self.dlock("release", "--id-file", self.path("missing")))

    def test_nothing_is_held_when_the_id_cannot_be_delivered(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = self.dlock("acquire", "k", stdout=full, stderr=subprocess.PIPE)
        self.assertExit(125, done)
        self.assertIn("stdout", done.stderr)
        self.assertExit(125, self.dlock("acquire", "--id-file", self.path("missing/id"), "k"))
        reading, writing = os.pipe()
        os.close(reading)
        done = self.dlock("acquire", "k", stdout=writing, stderr=subprocess.PIPE)
        os.close(writing)
        self.assertExit(125, done)
        self.assertEqual([], self.show()["holders"])

    def test_run_adopts_an_acquired_lock(self):
        file = self.path("id")
        self.assertExit(0, self.dlock("acquire", "--lease", "1s", "--id-file", file, "k"))
        fence = self.show()["holders"][0]["fence"]
        running = self.start("run", "--adopt", file, "--lease", "1s", "k", "--", "bash", "-c",
                             "echo $DLOCK_FENCE; read")
        self.assertEqual(str(fence), running.out.line())
        # Past the lease of the first: it is renewed.
        busy = self.dlock("run", "-w", "1.5", "k", "--", "true")
        self.assertExit(75, busy)
        running.close_stdin()
        running.wait()
        self.assertExit(0, self.dlock("run", "-n", "k", "--", "true"))
        gone = self.dlock("run", "--adopt", file, "k", "--", "touch", self.path("ran"))
        self.assertExit(76, gone)
        self.assertFalse(os.path.exists(self.path("ran")))

    def test_adopt_wants_a_file_with_an_id_of_the_key(self):
        file = self.path("id")
        self.assertExit(0, self.dlock("acquire", "--id-file", file, "k"))
        for words, says in ((("--adopt", file, "other"), "of the key k"), (("--adopt", "-", "k"), "stdin"),
                            (("--adopt", self.path("none"), "k"), "none")):
            done = self.dlock("run", *words, "--", "true")
            self.assertNotEqual(0, done.returncode)
            self.assertIn(says, done.stderr)

    def test_busy(self):
        self.take("--note", "mine")
        done = self.dlock("acquire", "-n", "-E", "3", "k")
        self.assertExit(3, done)
        self.assertEqual("", done.stdout)
        self.assertIn('"mine"', done.stderr)


class ListAndShow(Case):
    def test_list(self):
        self.assertIn("KEY", self.dlock("list").stdout)
        for key in ("a/1", "a/2", "b/1", "ä%25%0A"):
            self.assertExit(0, self.dlock("acquire", "--note", f"note of {key}", key))
        rows = self.dlock("list").stdout.splitlines()
        self.assertEqual(["KEY", "a/1", "a/2", "b/1", "ä%25%0A"], [row.split()[0] for row in rows])
        locks = self.json("list")["locks"]
        self.assertEqual(["a/1", "a/2", "b/1", "ä%25%0A"], [lock["key"] for lock in locks])
        self.assertEqual("note of a/1", locks[0]["holders"][0]["note"])
        self.assertEqual(["a/1", "a/2"], [lock["key"] for lock in self.json("list", "a/")["locks"]])
        self.assertEqual(["ä%25%0A"], [lock["key"] for lock in self.json("list", "ä%25")["locks"]])

    def test_all_includes_free_keys(self):
        self.assertExit(0, self.dlock("run", "gone", "--", "true"))
        self.assertEqual([], self.json("list")["locks"])
        lock, = self.json("list", "--all")["locks"]
        self.assertEqual(("gone", []), (lock["key"], lock["holders"]))
        self.assertGreater(int(lock["lastFence"]), 0)
        self.assertRegex(self.dlock("list", "-a").stdout, r"gone +free")

    def test_show(self):
        self.holder("k", "--note", "the note", "--biz", "order 4711", "--txid", "t-1")
        waiting = self.start("run", "k", "--", "true")
        waiting.err.until("waiting for k")
        text = self.dlock("show", "k").stdout
        for part in ("held", "(pid ", "the note", "order 4711", "t-1", "in line     1", "fence"):
            self.assertIn(part, text)
        lock = self.show()
        self.assertEqual(("order 4711", "t-1"), (lock["holders"][0]["bizId"], lock["holders"][0]["txid"]))
        self.assertEqual(1, lock["waiterCount"])
        self.assertEqual(waiting.pid, lock["waiters"][0]["pid"])
        self.assertRegex(lock["holders"][0]["since"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")

    def test_show_of_a_free_key(self):
        done = self.dlock("show", "never-used")
        self.assertExit(0, done)
        self.assertIn("free", done.stdout)
        self.assertNotIn("force-release", done.stdout)

    def test_full_stdout(self):
        for verb in (("list",), ("show", "k"), ("--version",), ("--help",), ("run", "--help")):
            with open("/dev/full", "w", encoding="utf-8") as full:
                self.assertExit(125, self.dlock(*verb, stdout=full, stderr=subprocess.PIPE))


class ForceRelease(Case):
    def seen(self, key="k"):
        return self.show(key)["holders"][0]["publicId"]

    def test_done_already_free_and_moved_on(self):
        self.assertExit(0, self.dlock("acquire", "k"))
        old = self.seen()
        self.assertEqual("done", self.json("force-release", "k", "--seen", old)["outcome"])
        self.assertEqual("already_free", self.json("force-unlock", "k", "--seen", old)["outcome"])
        self.assertExit(0, self.dlock("acquire", "k"))
        done = self.dlock("force-release", "k", "--seen", old)
        self.assertExit(75, done)
        self.assertIn("--seen " + self.seen(), done.stderr.splitlines()[-1])
        self.assertEqual("moved_on", self.json("force-release", "k", "--seen", old, code=75)["error"]["code"])

    def test_without_seen_and_terminal_it_refuses_and_says_how(self):
        self.assertExit(0, self.dlock("acquire", "k"))
        done = self.dlock("force-release", "k")
        self.assertExit(64, done)
        self.assertIn("--seen " + self.seen(), done.stderr.splitlines()[-1])
        self.assertExit(0, self.dlock("force-release", "free-key"))

    def test_bad_seen(self):
        for seen in ("", "123", "XYZ123456789", "0123456789abc"):
            self.assertExit(64, self.dlock("force-release", "k", "--seen", seen))

    def test_asks_on_a_terminal(self):
        self.assertExit(0, self.dlock("acquire", "k"))
        terminal = Terminal(self, ["force-release", "k"])
        terminal.until("[y/N]")
        terminal.type("n\n")
        self.assertEqual(75, terminal.wait())
        self.assertEqual(1, len(self.show()["holders"]))
        terminal = Terminal(self, ["force-release", "k"])
        terminal.until("[y/N]")
        terminal.type("y\n")
        self.assertEqual(0, terminal.wait())
        self.assertEqual([], self.show()["holders"])


if __name__ == "__main__":
    unittest.main()
