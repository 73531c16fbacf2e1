# SPDX-License-Identifier: Apache-2.0
"""Wrong input, the choice of the store, closed descriptors."""
import json
import os
import socket
import stat
import subprocess
import unittest

from support import DLOCK, Case, Redis


class Usage(Case):
    def refused(self, *words, says):
        done = self.dlock(*words)
        self.assertExit(64, done)
        self.assertIn(says, done.stderr)
        self.assertEqual("", done.stdout)

    def test_words(self):
        self.refused(says="no verb")
        self.refused("explode", says="explode")
        self.refused("run", "k", says="no command")
        self.refused("run", "k", "--", says="no command")
        self.refused("run", "--", "true", says="KEY")
        self.refused("run", "--bogus", "k", "--", "true", says="--bogus")
        self.refused("run", "k", "true", "--", "true", says="true")
        self.refused("show", says="KEY")
        self.refused("acquire", "k", "--", "true", says="true")
        self.refused("run", "-n", "-w", "1", "k", "--", "true", says="exclude")

    def test_durations(self):
        for option in ("--lease", "--wait", "--grace"):
            for text in ("30", "s", "-5s", "1e3s", "nan", "inf", "infs", "0x10s", "5 s", "5s5", "1w",
                         "99999999d", "9" * 400 + "s", "0.1ms", "+5s", ".5s"):
                self.refused("run", f"{option}={text}", "k", "--", "true", says=option)
        self.refused("run", "--lease", "", "k", "--", "true", says="--lease")
        self.refused("run", "--lease", "0s", "k", "--", "true", says="--lease")
        self.refused("run", "--lease", "10ms", "k", "--", "true", says="minimum")
        for text in ("5s", "-1", "", "nan", "1e400", "inf"):
            self.refused("run", "-w", text, "k", "--", "true", says="-w")
        for text in ("256", "-1", "x", "", "1.5"):
            self.refused("run", "-E", text, "k", "--", "true", says="-E")

    def test_good_durations(self):
        for text in ("1500ms", "1.5s", "2m", "1h", "1d", "365d"):
            self.assertExit(0, self.dlock("run", "--lease", text, "k", "--", "true"))
        self.assertExit(0, self.dlock("run", "-w", "0.25", "k", "--", "true"))
        self.assertExit(0, self.dlock("run", "--wait", "0s", "k", "--", "true"))

    def test_keys(self):
        self.refused("run", "", "--", "true", says="key")
        self.refused("run", "%zz", "--", "true", says="%")
        self.refused("run", "x" * 1025, "--", "true", says="1024")
        for key in ("x" * 1024, "a b", "Ä", "A\u0308", "%00", "%FF", "'\"", "{a}", "a/%2Fb", " "):
            self.assertExit(0, self.dlock("run", key, "--", "true"))

    def test_errors_as_json(self):
        for words in (("run", "k"), ("run", "--lease", "3", "k", "--", "true"), ("explode",), ("show", "%z")):
            done = self.dlock(words[0], "--json", *words[1:])
            self.assertExit(64, done)
            error = json.loads(done.stdout)["error"]
            self.assertEqual(("invalid_argument", "fatal"), (error["code"], error["fault"]))
            self.assertTrue(error["detail"])

    def test_help_and_version(self):
        self.assertRegex(self.dlock("--version").stdout, r"^dlock \d+\.\d+\.\d+\n$")
        overview = self.dlock("--help").stdout
        for verb in ("run", "acquire", "renew", "release", "list", "show", "force-release"):
            self.assertIn(f"  {verb} ", overview)
            text = self.dlock(verb, "--help").stdout
            self.assertIn(f"Usage: dlock {verb}", text)
            self.assertIn("Examples:\n  ", text)
            self.assertIn(f"dlock {verb} ", text.split("Examples:")[1])

    def test_the_command_keeps_its_own_options(self):
        done = self.dlock("run", "k", "--", "echo", "--json", "-n", "--", "--help")
        self.assertEqual("--json -n -- --help\n", done.stdout)


class Stores(Case):
    def plain_env(self, **more):
        return {"PATH": os.environ["PATH"], "TMPDIR": self.folder} | more

    def bare(self, *words, env):
        return subprocess.run([DLOCK, *words], env=env, capture_output=True, text=True, timeout=20,
                              stdin=subprocess.DEVNULL)

    def test_own_file_in_the_state_folder(self):
        if os.access("/var/lib/dlock", os.W_OK):
            self.skipTest("this host has a store of its own")
        state = self.path("state")
        done = self.bare("run", "k", "--", "true", env=self.plain_env(XDG_STATE_HOME=state))
        self.assertExit(0, done)
        self.assertIn("this user only", done.stderr)
        self.assertTrue(os.path.exists(os.path.join(state, "dlock", "locks.db")))
        self.assertEqual(0o700, stat.S_IMODE(os.stat(os.path.join(state, "dlock")).st_mode))
        done = self.bare("list", "--local", env=self.plain_env(HOME=self.folder))
        self.assertExit(0, done)
        self.assertEqual("", done.stderr)
        self.assertTrue(os.path.isdir(self.path(".local/state/dlock")))
        done = self.bare("list", env=self.plain_env())
        self.assertExit(78, done)
        self.assertIn("DLOCK_STORE", done.stderr)

    def test_named_sqlite_says_host(self):
        self.assertIn("this host only", self.dlock("list").stderr)
        self.assertEqual("", self.dlock("list", "--local").stderr)

    def test_order_option_environment_file(self):
        urls = {name: "sqlite:" + self.path(name + ".db") for name in ("option", "environment", "file")}
        with open(self.path("url"), "w", encoding="utf-8") as file:
            file.write(urls["file"] + "\n")
        env = self.plain_env(DLOCK_STORE_FILE=self.path("url"))
        self.assertExit(0, self.bare("acquire", "from-file", env=env))
        env["DLOCK_STORE"] = urls["environment"]
        self.assertExit(0, self.bare("acquire", "from-environment", env=env))
        self.assertExit(0, self.bare("acquire", "from-option", "--store", urls["option"], env=env))
        for name, url in urls.items():
            listed = json.loads(self.bare("list", "--json", env=self.plain_env(DLOCK_STORE=url)).stdout)
            self.assertEqual([f"from-{name}"], [lock["key"] for lock in listed["locks"]])

    def test_bad_store_file(self):
        self.assertExit(78, self.bare("list", env=self.plain_env(DLOCK_STORE_FILE=self.path("missing"))))
        with open(self.path("empty"), "w", encoding="utf-8"):
            pass
        self.assertExit(78, self.bare("list", env=self.plain_env(DLOCK_STORE_FILE=self.path("empty"))))

    def test_bad_urls(self):
        for url in ("nonsense", "floppy:/a", "redis://h:1/0?bogus=1", "sqlite:"):
            done = self.dlock("run", "--store", url, "k", "--", "true")
            self.assertExit(64, done)

    def test_password_is_refused_as_an_argument_and_never_printed(self):
        for url in ("redis://:hunter2@127.0.0.1:1/0", "redis://user:hunter2@127.0.0.1:1/0"):
            done = self.dlock("list", "--store", url)
            self.assertExit(64, done)
            self.assertNotIn("hunter2", done.stderr)
            self.assertIn("DLOCK_STORE", done.stderr)
            done = self.dlock("run", "-n", "k", "--", "true", env={"DLOCK_STORE": url})
            self.assertExit(69, done)
            self.assertNotIn("hunter2", done.stderr)

    def test_unreachable(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        url = f"redis://127.0.0.1:{port}/0"
        for words in (("run", "-n", "k", "--", "true"), ("acquire", "-n", "k"), ("list",), ("show", "k"),
                      ("run", "k", "--", "true")):
            done = self.dlock(words[0], "--store", url, *words[1:])
            self.assertExit(69, done)
            self.assertIn(str(port), done.stderr)

    def test_wrong_password(self):
        server = Redis(self)
        port = server.url.split(":")[2].split("/")[0]
        subprocess.run(["redis-cli", "-p", port, "config", "set", "requirepass", "right"], check=True,
                       stdout=subprocess.DEVNULL)
        ran = self.path("ran")
        for login in (":wrong@", ""):
            url = f"redis://{login}127.0.0.1:{port}"
            for words in (("run", "k", "--", "touch", ran), ("acquire", "k"), ("list",)):
                done = self.dlock(*words, env={"DLOCK_STORE": url})
                self.assertExit(77, done)
                self.assertNotIn("wrong@", done.stderr)
        self.assertFalse(os.path.exists(ran))
        self.assertExit(0, self.dlock("run", "k", "--", "true",
                                      env={"DLOCK_STORE": f"redis://:right@127.0.0.1:{port}"}))

    def test_sqlite_places_that_do_not_work(self):
        os.mkdir(self.path("folder"))
        for path in (self.path("missing/locks.db"), self.path("folder")):
            done = self.dlock("run", "-n", "--store", "sqlite:" + path, "k", "--", "true")
            self.assertIn(done.returncode, (64, 69, 77, 78), done.stderr)
            self.assertIn(path, done.stderr)
        with open(self.path("text"), "w", encoding="utf-8") as file:
            file.write("not a database\n" * 1000)
        done = self.dlock("run", "-n", "--store", "sqlite:" + self.path("text"), "k", "--", "true")
        self.assertExit(78, done)


class ClosedDescriptors(Case):
    def closed(self, numbers, *words):
        redirect = " ".join(f"{n}{'<' if n == 0 else '>'}&-" for n in numbers)
        return subprocess.run(["sh", "-c", f'exec "$@" {redirect}', "sh", DLOCK, *words], env=self.env,
                              capture_output=True, text=True, timeout=20)

    def test_run_works(self):
        for numbers in ((0,), (1,), (2,), (0, 1, 2)):
            self.assertEqual(6, self.closed(numbers, "run", "k", "--", "sh", "-c", "exit 6").returncode)

    def test_no_file_of_ours_gets_a_standard_number(self):
        links = "readlink /proc/$$/fd/0 /proc/$$/fd/1 /proc/$$/fd/2"
        script = f"all=$({links}); echo $all > {self.path('links')}"
        self.closed((0, 1, 2), "run", "k", "--", "sh", "-c", script)
        with open(self.path("links"), encoding="utf-8") as file:
            self.assertEqual(["/dev/null"] * 3, file.read().split())

    def test_an_id_that_nobody_gets_is_given_back(self):
        self.assertEqual(125, self.closed((1,), "acquire", "k").returncode)
        self.assertEqual([], self.show()["holders"])


if __name__ == "__main__":
    unittest.main()
