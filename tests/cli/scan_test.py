# SPDX-License-Identifier: Apache-2.0
"""scan: locks as other programs write them, and data that is none."""
import sqlite3
import unittest

from support import Case, Redis
from terminal import Terminal

UUID = "4f6f1f4e-6a2d-4f0e-9a8e-3f0b3b6c1f00"
TOKEN = "0123456789abcdef0123456789abcdef"


class OnRedis(Case):
    def setUp(self):
        super().setUp()
        self.redis = Redis(self)
        self.env["DLOCK_STORE"] = self.redis.url

    def scan(self, *options):
        return {lock["name"]: lock for lock in self.json("scan", *options)["locks"]}

    def string(self, name, value, *options):
        self.redis.command("SET", name, value, *(options or ("PX", "60000")))

    def assertLayout(self, lock, layout, sure, *flags):
        self.assertEqual((layout, sure, list(flags)), (lock["layout"], lock["sure"], lock["flags"]), lock)

    def test_dlocks_own(self):
        self.assertExit(0, self.dlock("acquire", "--lease", "1m", "a/{1}%25"))
        self.assertExit(0, self.dlock("run", "was", "--", "true"))
        holder = self.holder("busy")
        waiting = self.start("run", "busy", "--", "true")
        waiting.err.until("waiting for busy")
        self.redis.command("HSET", "dlock:{other}", "v", "9:mutex")
        found = self.scan()
        self.assertEqual({"a/{1}%25", "was", "busy", "other"}, set(found))
        self.assertLayout(found["a/{1}%25"], "dlock", "certain")
        self.assertTrue(50000 < found["a/{1}%25"]["expiresInMs"] <= 60000, found)
        self.assertIn(f"(pid {holder.pid})", found["busy"]["holder"])
        self.assertEqual(1, found["busy"]["waiterCount"])
        self.assertGreaterEqual(found["busy"]["heldForMs"], 0)
        self.assertFalse(found["was"]["held"])
        self.assertIn("another version", found["other"]["flags"][0])

    def test_plain_of_dlock_tells_its_holder(self):
        plain = {"DLOCK_STORE": self.redis.url + "?layout=plain"}
        self.assertExit(0, self.dlock("acquire", "jobs:x", env=plain))
        for env in ({}, plain):
            lock, = self.json("scan", env=env)["locks"]
            self.assertLayout(lock, "plain", "certain")
            self.assertRegex(lock["holder"], r"dlock@.* \(pid \d+\)")

    def test_strings_of_others(self):
        self.string("jobs:node", TOKEN)
        self.string("py", "3c2f9a5ecf0b11ee8f3a0242ac120002")
        self.string("sync", "q1w2e3r4t5y6u7i8o9p0aA==")
        self.string("registry:key", UUID)
        self.string("job-lock:default:nightly", "ADDED:2026-01-02T03:04:05.000Z@host-1")
        self.string("my-mutex", "x")
        self.redis.command("SET", "stuck-lock", TOKEN)
        found = self.scan()
        for name, layout, sure in (("jobs:node", "plain", "likely"), ("py", "redis-py", "likely"),
                                   ("sync", "redsync", "likely"), ("registry:key", "spring", "likely"),
                                   ("job-lock:default:nightly", "shedlock", "certain")):
            self.assertLayout(found[name], layout, sure)
            self.assertTrue(0 < found[name]["expiresInMs"] <= 60000)
        self.assertLayout(found["my-mutex"], "plain", "perhaps", "no owner recorded")
        self.assertLayout(found["stuck-lock"], "plain", "likely", "never expires")
        self.assertIsNone(found["stuck-lock"]["expiresInMs"])
        self.assertEqual("host-1 since 2026-01-02T03:04:05.000Z", found["job-lock:default:nightly"]["holder"])
        self.assertNotIn(TOKEN, str(found))  # who has it can release

    def test_redisson(self):
        self.redis.command("HSET", "plainly", f"{UUID}:42", "2")
        self.redis.command("PEXPIRE", "plainly", "30000")
        self.redis.command("HSET", "fair", f"{UUID}:7", "1")
        self.redis.command("RPUSH", "redisson_lock_queue:{fair}", f"{UUID}:8", f"{UUID}:9")
        self.redis.command("ZADD", "redisson_lock_timeout:{fair}", "1", f"{UUID}:8")
        self.redis.command("HSET", "rw", "mode", "write", f"{UUID}:1:write", "1")
        self.redis.command("SET", "{rw}:" + f"{UUID}:1:rwlock_timeout:1", "1", "PX", "30000")
        found = self.scan()
        self.assertEqual({"plainly", "fair", "rw"}, set(found))
        self.assertLayout(found["plainly"], "redisson", "certain")
        self.assertEqual(f"client {UUID} thread 42, held 2 times", found["plainly"]["holder"])
        self.assertLayout(found["fair"], "redisson", "certain", "never expires")
        self.assertEqual(2, found["fair"]["waiterCount"])
        self.assertIn("RReadWriteLock", found["rw"]["how"])

    def test_data_is_no_lock(self):
        self.redis.command("HSET", "user:1", "name", "ann")
        self.redis.command("HSET", "mixed", f"{UUID}:1", "1", "name", "ann")
        self.redis.command("LPUSH", "lock-list", "a")
        self.redis.command("SET", "token", TOKEN)
        self.string("cached", "some text")
        self.assertEqual({}, self.scan())

    def test_match_and_limit(self):
        for i in range(20):
            self.string(f"jobs:{i}", TOKEN)
            self.string(f"other:{i}", TOKEN)
        self.assertEqual({f"jobs:{i}" for i in range(20)}, set(self.scan("--match", "jobs:*")))
        answer = self.json("scan", "--limit", "7")
        self.assertEqual((7, True), (len(answer["locks"]), answer["more"]))
        done = self.dlock("scan", "--limit", "7")
        self.assertIn("--limit 7 ended it", done.stderr)
        for bad in (("--limit", "0"), ("--limit", "x"), ("--store", self.redis.url, self.redis.url)):
            self.assertExit(64, self.dlock("scan", *bad))

    def test_it_only_reads_and_never_asks_for_all(self):
        for i in range(3):
            self.string(f"jobs:{i}", TOKEN)
        self.redis.command("CONFIG", "RESETSTAT")
        self.redis.command("CONFIG", "SET", "replica-read-only", "yes")
        self.redis.command("ACL", "SETUSER", "reader", "on", ">pw", "~*", "-@all", "+scan", "+type", "+pttl",
                           "+getrange", "+get", "+hscan", "+hmget", "+llen", "+zcard", "+time", "+dbsize")
        url = self.redis.url.replace("//", "//reader:pw@")
        self.assertEqual(3, len(self.json("scan", env={"DLOCK_STORE": url})["locks"]))
        self.assertNotIn("cmdstat_keys", self.redis.command("INFO", "commandstats"))

    def test_a_user_who_may_read_some_names(self):
        self.string("jobs:1", TOKEN)
        self.string("secret:1", TOKEN)
        self.redis.command("ACL", "SETUSER", "reader", "on", ">pw", "~jobs:*", "+@all")
        url = self.redis.url.replace("//", "//reader:pw@")
        self.assertEqual(["jobs:1"], [lock["name"] for lock in self.json("scan", env={"DLOCK_STORE": url})["locks"]])

    def test_many_names_in_many_steps(self):
        self.redis.command("EVAL", "for i = 1, 20000 do redis.call('SET', 'data:' .. i, 'x') end "
                           "for i = 1, 600 do redis.call('SET', 'jobs:' .. i, '" + TOKEN + "', 'PX', 60000) end", "0")
        answer = self.json("scan")
        self.assertEqual((600, False), (len(answer["locks"]), answer["more"]))
        self.assertGreaterEqual(answer["lookedAt"], 20600)

    def test_text(self):
        self.redis.command("SET", "stuck\x1b-lock", "1")
        done = self.dlock("scan", self.redis.url)
        self.assertExit(0, done)
        self.assertRegex(done.stdout, r"stuck%1B-lock +plain +perhaps .*! never expires, no owner recorded")
        self.assertIn("recognised by", done.stdout)
        self.assertIn("1 lock among", done.stdout)
        self.assertEqual("", done.stderr)
        terminal = Terminal(self, ["scan"])
        terminal.until("1 lock among")
        self.assertEqual(0, terminal.wait())

    def test_nobody_answers(self):
        self.redis.end()
        self.assertExit(69, self.dlock("scan"))


class OnSqlite(Case):
    def test_dlocks_own(self):
        for key in ("a/1", "a/2", "b/1"):
            self.assertExit(0, self.dlock("acquire", key))
        self.assertEqual(["a/1", "a/2", "b/1"], [lock["name"] for lock in self.json("scan")["locks"]])
        lock, = self.json("scan", "--match", "b/*")["locks"]
        self.assertEqual(("dlock", "certain", True), (lock["layout"], lock["sure"], lock["held"]))

    def test_tables_of_others(self):
        path = self.path("app.db")
        with sqlite3.connect(path) as app:
            app.execute("CREATE TABLE shedlock(name TEXT PRIMARY KEY, lock_until TIMESTAMP, locked_at TIMESTAMP, "
                        "locked_by TEXT)")
            app.execute("INSERT INTO shedlock VALUES "
                        "('nightly', datetime('now', '+1 minute'), datetime('now'), 'web-1'),"
                        "('over', datetime('now', '-1 minute'), datetime('now', '-2 minutes'), 'web-2')")
            app.execute("INSERT INTO shedlock SELECT 'numbers', (strftime('%s', 'now') + 60) * 1000, "
                        "strftime('%s', 'now') * 1000, 'web-3'")
            app.execute("CREATE TABLE INT_LOCK(LOCK_KEY CHAR(36), REGION TEXT, CLIENT_ID TEXT, CREATED_DATE TIMESTAMP)")
            app.execute("INSERT INTO INT_LOCK VALUES ('k1', 'DEFAULT', ?, datetime('now', '-5 seconds'))", (UUID,))
            app.execute("CREATE TABLE \"odd\"\"name\"(name, lock_until, locked_at, locked_by)")
            app.execute("CREATE TABLE data(name, locked_by)")
        with open(path, "rb") as file:
            before = file.read()
        answer = self.json("scan", "--local", f"sqlite:{path}")
        found = {lock["name"]: lock for lock in answer["locks"]}
        self.assertEqual({"shedlock/nightly", "shedlock/over", "shedlock/numbers", "INT_LOCK/DEFAULT/k1"}, set(found))
        for name, holder in (("nightly", "web-1"), ("numbers", "web-3")):
            lock = found["shedlock/" + name]
            self.assertEqual(("shedlock", holder, True), (lock["layout"], lock["holder"], lock["held"]))
            self.assertTrue(40000 < lock["expiresInMs"] <= 61000, lock)
        self.assertFalse(found["shedlock/over"]["held"])
        spring = found["INT_LOCK/DEFAULT/k1"]
        self.assertEqual(("spring", UUID), (spring["layout"], spring["holder"]))
        self.assertTrue(4000 <= spring["heldForMs"] < 60000, spring)
        self.assertIn("no expiry", spring["flags"][0])
        with open(path, "rb") as file:
            self.assertEqual(before, file.read())

    def test_no_file_is_made(self):
        self.assertEqual([], self.json("scan")["locks"])
        self.assertExit(64, self.dlock("scan", "memory:x"))


if __name__ == "__main__":
    unittest.main()
