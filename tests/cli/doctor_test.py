# SPDX-License-Identifier: Apache-2.0
"""doctor: against real servers and files that are well, and that are not."""
import os
import signal
import sqlite3
import unittest

from support import Case, Redis

SAFE = ("--appendonly", "yes", "--appendfsync", "always")
RIGHTS = ("+eval +evalsha +time +hmget +hget +hset +hdel +exists +getset +set +pexpire +zadd +zrem +zrange +zrank "
          "+zcard +publish +subscribe +scan +select +role +client|setname").split()


class Doctor(Case):
    def doctor(self, url, *options, code=0):
        return self.json("doctor", "--local", *options, code=code, env={"DLOCK_STORE": url})

    def only(self, report, subject):
        """The findings of that subject, at least one."""
        found = [each for each in report["findings"] if each["subject"] == subject]
        self.assertTrue(found, report)
        return found

    def assertFinds(self, report, severity, subject, *words):
        for each in self.only(report, subject):
            if each["severity"] == severity and all(word in each["text"] + str(each["fix"]) for word in words):
                return
        self.fail(f"no {severity} about {subject} with {words} in {self.only(report, subject)}")


class OnRedis(Doctor):
    def test_a_server_that_is_well(self):
        redis = Redis(self, *SAFE)
        self.assertExit(0, self.dlock("acquire", "k", env={"DLOCK_STORE": redis.url}))
        before = redis.command("HGETALL", "dlock:{k}")
        report = self.doctor(redis.url)
        self.assertEqual((0, 0), (report["problems"], report["warnings"]), report)
        self.assertEqual({"ok"}, {each["severity"] for each in report["findings"]})
        self.assertEqual({"reach", "server", "replication", "eviction", "persistence", "rights", "TLS", "clock",
                          "trial"}, {each["subject"] for each in report["findings"]})
        for step in ("acquireMs", "renewMs", "releaseMs"):
            self.assertTrue(0 < report["trial"][step] < 10000, report)
        self.assertEqual({"dlock:floor", "dlock:{k}"}, set(redis.command("KEYS", "*").split()))
        self.assertEqual(before, redis.command("HGETALL", "dlock:{k}"))

    def test_fences_rise_though_the_trial_is_forgotten(self):
        redis = Redis(self, *SAFE)
        floors = []
        for _ in range(2):
            self.doctor(redis.url)
            floors.append(int(redis.command("GET", "dlock:floor")))
        self.assertLess(floors[0], floors[1])
        redis.command("SET", "dlock:floor", "7000000000000001")
        self.doctor(redis.url)
        self.assertLess(7000000000000001, int(redis.command("GET", "dlock:floor")))

    def test_eviction(self):
        redis = Redis(self, "--maxmemory-policy", "allkeys-lru")
        self.assertFinds(self.doctor(redis.url), "warning", "eviction", "allkeys-lru", "noeviction")
        redis.command("CONFIG", "SET", "maxmemory", "100mb")
        report = self.doctor(redis.url, code=78)
        self.assertFinds(report, "problem", "eviction", "allkeys-lru", "CONFIG SET maxmemory-policy noeviction")
        redis.command("CONFIG", "SET", "maxmemory-policy", "noeviction")
        self.assertFinds(self.doctor(redis.url), "ok", "eviction")

    def test_persistence(self):
        redis = Redis(self)
        self.assertFinds(self.doctor(redis.url), "warning", "persistence", "forgets all", "appendonly yes")
        redis.command("CONFIG", "SET", "save", "3600 1")
        self.assertFinds(self.doctor(redis.url), "warning", "persistence", "snapshots", "3600 1")
        redis.command("CONFIG", "SET", "appendonly", "yes")
        self.assertFinds(self.doctor(redis.url), "note", "persistence", "last second", "everysec")

    def test_replication(self):
        primary = Redis(self, *SAFE)
        replica = Redis(self, "--replicaof", f"127.0.0.1 {primary.port}", "--repl-diskless-sync-delay", "0")
        primary.command("SET", "any", "1")
        self.assertEqual("1", primary.command("WAIT", "1", "15000"))
        self.assertFinds(self.doctor(primary.url), "warning", "replication", "asynchronous", "fence")
        report = self.doctor(replica.url, code=69)
        self.assertFinds(report, "problem", "replication", "replica of 127.0.0.1", "primary")
        self.assertFinds(report, "problem", "trial", "acquiring")
        both = f"redis://127.0.0.1:{replica.port},127.0.0.1:{primary.port}"
        self.assertFinds(self.doctor(both), "warning", "replication", "1 replica")

    def test_rights(self):
        redis = Redis(self, *SAFE)
        some = [right for right in RIGHTS if right not in ("+zadd", "+publish")]
        redis.command("ACL", "SETUSER", "app", "on", ">secret", "~dlock:*", "&dlock:wake:*", "-@all", *some)
        url = redis.url.replace("//", "//app:secret@")
        report = self.doctor(url, code=78)
        self.assertFinds(report, "problem", "rights", "zadd", "wait in line", "ACL SETUSER app +zadd")
        self.assertFinds(report, "warning", "rights", "publish", "2 s late")
        self.assertFinds(report, "warning", "server", "INFO", "+info")
        self.assertFinds(report, "ok", "trial")
        redis.command("ACL", "SETUSER", "app", *RIGHTS)
        report = self.doctor(url)
        self.assertFinds(report, "ok", "rights", "app has all 19")
        redis.command("ACL", "SETUSER", "app", "-evalsha", "-eval")
        report = self.doctor(url, code=77)
        self.assertFinds(report, "problem", "rights", "scripts", "+eval +evalsha")
        self.assertNotIn("secret", str(report))

    def test_wrong_password(self):
        redis = Redis(self, "--requirepass", "right")
        report = self.doctor(redis.url.replace("//", "//:wrong-one@"), code=77)
        self.assertFinds(report, "problem", "reach", "password")
        self.assertNotIn("wrong-one", str(report))

    def test_a_user_of_layout_plain_for_some_keys(self):
        redis = Redis(self, *SAFE)
        redis.command("ACL", "SETUSER", "app", "on", ">secret", "~jobs:*", "~dlock:meta:*", "-@all", "+info",
                      "+config|get", "+eval", "+evalsha", "+time", "+get", "+set", "+del", "+pttl", "+pexpire", "+scan",
                      "+client|setname")
        url = redis.url.replace("//", "//app:secret@") + "?layout=plain"
        self.assertFinds(self.doctor(url, code=77), "problem", "trial", "--prefix")
        report = self.doctor(url, "--prefix", "jobs:")
        self.assertEqual((0, 0), (report["problems"], report["warnings"]), report)
        self.assertEqual("", redis.command("KEYS", "*"))

    def test_nobody_answers(self):
        redis = Redis(self)
        redis.process.send_signal(signal.SIGSTOP)
        report = self.doctor(redis.url, code=69)
        self.assertFinds(report, "problem", "reach", "127.0.0.1", "firewall")
        redis.end()
        report = self.doctor(redis.url, code=69)
        self.assertFinds(report, "problem", "reach", "Connection refused")
        self.assertIsNone(report["trial"])

    def test_plain_text_over_the_network(self):
        # 0.0.0.0 reaches this host, but is no name of the loopback.
        redis = Redis(self, *SAFE, "--bind", "0.0.0.0", "--protected-mode", "no")
        report = self.doctor(f"redis://0.0.0.0:{redis.port}")
        self.assertFinds(report, "warning", "TLS", "plain text", "rediss://")

    def test_text(self):
        redis = Redis(self)
        done = self.dlock("doctor", env={"DLOCK_STORE": redis.url})
        self.assertExit(0, done)
        self.assertRegex(done.stdout, r"(?m)^WARNING  persistence +none")
        self.assertRegex(done.stdout, r"(?m)^ +fix: CONFIG SET appendonly yes")
        self.assertIn("no problems, 1 warning", done.stdout)
        self.assertNotIn("\033", done.stdout)
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 110)


class OnSqlite(Doctor):
    def test_a_file_that_is_well(self):
        self.assertExit(0, self.dlock("acquire", "k"))
        report = self.doctor(f"sqlite:{self.db}")
        self.assertEqual((0, 0), (report["problems"], report["warnings"]), report)
        self.assertFinds(report, "note", "scope", "this user of this host only")
        self.assertFinds(report, "ok", "integrity", "quick_check", "remembered: 1")
        self.assertFinds(report, "ok", "trial", "nothing is left")
        self.assertEqual(["k"], [lock["key"] for lock in self.json("list", "--all")["locks"]])

    def test_looking_makes_no_file(self):
        report = self.doctor(f"sqlite:{self.db}")
        self.assertFinds(report, "note", "database", "not there yet")
        self.assertFinds(report, "note", "trial", "not done")
        self.assertEqual([], os.listdir(self.folder))

    def test_a_shared_file(self):
        self.assertExit(0, self.dlock("acquire", "k"))
        for name in (self.db, self.db + "-wal", self.db + "-shm"):
            os.chmod(name, 0o666)
        self.assertFinds(self.doctor(f"sqlite:{self.db}"), "note", "scope", "all its users")
        os.chmod(self.db + "-wal", 0o600)
        self.assertFinds(self.doctor(f"sqlite:{self.db}"), "warning", "files", "-wal", "chmod")

    def test_a_folder_where_everybody_may_delete(self):
        os.chmod(self.folder, 0o777)
        self.assertFinds(self.doctor(f"sqlite:{self.db}"), "warning", "folder", "0777", "chmod o-w")

    def test_what_cannot_be_used(self):
        report = self.doctor(f"sqlite:{self.path('none/locks.db')}", code=69)
        self.assertFinds(report, "problem", "reach", "mkdir -p")
        with sqlite3.connect(self.path("app.db")) as other:
            other.execute("CREATE TABLE app(x)")
        report = self.doctor(f"sqlite:{self.path('app.db')}", code=78)
        self.assertFinds(report, "problem", "database", "another program")

    def test_a_damaged_file(self):
        self.assertExit(0, self.dlock("acquire", "k"))
        with sqlite3.connect(self.db) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with open(self.db, "r+b") as file:
            file.seek(2048)
            file.write(b"\xff" * (os.path.getsize(self.db) - 2048))
        report = self.json("doctor", "--local", code=78)
        self.assertTrue(any(each["severity"] == "problem" and "damaged" in each["text"]
                            for each in report["findings"]), report)


class InMemory(Doctor):
    def test_it_says_how_far_it_reaches(self):
        self.assertFinds(self.doctor("memory:x"), "note", "scope", "this process only", "redis://")


if __name__ == "__main__":
    unittest.main()
