# SPDX-License-Identifier: Apache-2.0
"""docs/fencing.md: each sample refuses a holder that was stopped past its lease, and its condition is what does it."""
import os
import shutil
import signal
import unittest

import servers
from support import LIMIT, Case, Redis

SAMPLES = os.path.join(os.environ["DLOCK_SOURCE"], "examples", "fencing")
TABLE = "CREATE TABLE accounts(id BIGINT PRIMARY KEY, balance BIGINT, fence BIGINT NOT NULL DEFAULT 0{})"
ROW = "INSERT INTO accounts(id, balance) VALUES (17, 100)"
READ = "SELECT balance FROM accounts WHERE id = 17"

# Says that it holds, waits for a line, writes, tells how that ended.
WORK = 'echo "ready $$"; read -r go; "$@"; echo "exit $?"'


class Resource:
    """What the lock protects: started by `start`, written by the sample, read by `read`."""
    sample = ""
    condition = (" AND fence <= ", " AND 0 <= ")
    part = None  # the file that has the condition; the sample itself when None

    def __init__(self, case):
        self.case = case

    def command(self, value):
        return [self.case.path(self.sample), *self.arguments(value)]

    def arguments(self, value):
        return ["17", str(value)]

    def copy(self, conditional):
        """The files of the sample, without the condition if so wished."""
        guarded = self.part or self.sample
        for name in {self.sample, guarded}:
            shutil.copy(os.path.join(SAMPLES, name), self.case.path(name))
        if not conditional:
            with open(self.case.path(guarded), "r+", encoding="utf-8") as file:
                text = file.read()
                changed = text.replace(*self.condition)
                self.case.assertNotEqual(text, changed, "the sample has no condition to take away")
                file.seek(0)
                file.write(changed)
                file.truncate()

    def start(self):
        raise NotImplementedError

    def run(self, *command, **how):
        return servers.run(command, env=self.case.env, **how)


class Sqlite(Resource):
    sample = "sqlite"

    def start(self):
        self.case.env["DATABASE"] = self.case.path("accounts.db")
        self.run("sqlite3", self.case.path("accounts.db"), f"{TABLE.format('')}; {ROW}")

    def read(self):
        return self.run("sqlite3", self.case.path("accounts.db"), READ)


class Postgresql(Resource):
    sample = "postgresql"
    condition = (" AND fence <= ", " AND '0' <= ")

    def start(self):
        servers.start_postgresql(self.case)
        self.run("psql", "-XqAt", "-c", f"{TABLE.format('')}; {ROW}")

    def read(self):
        return self.run("psql", "-XqAt", "-c", READ)


class Mysql(Resource):
    sample = "mysql"

    def start(self):
        servers.start_mysql(self.case)
        self.run("mariadb", "-e", f"{TABLE.format(', writes BIGINT NOT NULL DEFAULT 0')} ENGINE=InnoDB; {ROW}")

    def read(self):
        return self.run("mariadb", "-BN", "-e", READ)


class RedisHash(Resource):
    sample = "redis"
    condition = ("if seen and ", "if false and ")

    def start(self):
        self.url = Redis(self.case).url
        self.case.env["REDIS_URL"] = self.url
        self.run("redis-cli", "-u", self.url, "HSET", "account:17", "balance", "100")

    def read(self):
        return self.run("redis-cli", "-u", self.url, "HGET", "account:17", "balance")


class Http(Sqlite):
    sample = "http"
    part = "http_service.py"

    def start(self):
        super().start()
        port = servers.start_python(self.case, self.case.path(self.part), self.case.path("accounts.db"))
        self.case.env["SERVICE"] = f"http://127.0.0.1:{port}"


class File(Resource):
    sample = "file"
    condition = ('[ "$seen" -gt "$DLOCK_FENCE" ]', "false")

    def start(self):
        with open(self.case.path("report"), "w", encoding="utf-8") as file:
            file.write("100\n")

    def command(self, value):
        return ["sh", "-c", 'echo "$1" | "$2" "$3"', "sh", str(value), self.case.path(self.sample),
                self.case.path("report")]

    def read(self):
        with open(self.case.path("report"), encoding="utf-8") as file:
            return file.read().strip()


class FileByName(File):
    sample = "file_by_name"
    condition = ('$(printf %020d "$DLOCK_FENCE")', "0000")

    def start(self):
        os.mkdir(self.case.path("report"))

    def read(self):
        name = self.run(self.case.path(self.sample), self.case.path("report"), "--current")
        with open(name, encoding="utf-8") as file:
            return file.read().strip()


class Fencing(Case):
    def stopped_past_its_lease(self, resource):
        """What the first holder's write came to, and the status of its dlock."""
        first = self.start("run", "--lease", "1s", "account/17", "--", "sh", "-c", WORK, "sh",
                           *resource.command(50))
        work = int(first.out.line().removeprefix("ready "))
        first.kill(signal.SIGSTOP)  # as a virtual machine that is paused: dlock and the work
        os.killpg(work, signal.SIGSTOP)
        self.addCleanup(self.let_go, work)

        second = self.dlock("run", "-w", str(LIMIT), "account/17", "--", *resource.command(200))
        self.assertExit(0, second)
        self.assertEqual("200", resource.read())

        os.killpg(work, signal.SIGCONT)  # the work goes on before dlock can tell it anything
        first.process.stdin.write(b"go\n")
        first.process.stdin.flush()
        written = first.out.line()
        first.kill(signal.SIGCONT)
        self.assertEqual(76, first.wait())
        return written

    @staticmethod
    def let_go(work):
        try:
            os.killpg(work, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def refuses(self, kind):
        resource = kind(self)
        resource.copy(conditional=True)
        resource.start()
        # One holder may write several times, the same value too.
        twice = self.dlock("run", "account/17", "--", "sh", "-ec", '"$@"; "$@"', "sh", *resource.command(150))
        self.assertExit(0, twice)
        self.assertEqual("150", resource.read())
        written = self.stopped_past_its_lease(resource)
        self.assertRegex(written, r"exit ([1-9]\d*)$|refused")
        self.assertEqual("200", resource.read())

    def overwrites(self, kind):
        """The control: without the condition the late write is taken."""
        resource = kind(self)
        resource.copy(conditional=False)
        resource.start()
        self.assertEqual("exit 0", self.stopped_past_its_lease(resource))
        self.assertEqual("50", resource.read())


def add(kind):
    name = kind.__name__.lower()
    setattr(Fencing, f"test_{name}_refuses_a_late_write", lambda self: self.refuses(kind))
    setattr(Fencing, f"test_{name}_without_its_condition_takes_it", lambda self: self.overwrites(kind))


for one in (Sqlite, Postgresql, Mysql, RedisHash, Http, File, FileByName):
    add(one)


class RowCount(Case):
    def test_mariadb_does_not_count_a_row_that_stays_the_same(self):
        """Why the sample has the column `writes`."""
        resource = Mysql(self)
        resource.condition = (", writes = writes + 1", "")
        resource.copy(conditional=False)
        resource.start()
        twice = self.dlock("run", "account/17", "--", "sh", "-c", '"$@"; echo $?; "$@"; echo $?', "sh",
                           *resource.command(150))
        self.assertEqual(["0", "1"], twice.stdout.split())
        self.assertEqual("150", resource.read())


class Service(Case):
    def test_a_write_without_a_fence_is_refused(self):
        resource = Http(self)
        resource.copy(conditional=True)
        resource.start()
        for header in ((), ("-H", "Fence: "), ("-H", "Fence: -1"), ("-H", "Fence: 1 OR 1")):
            status = resource.run("curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "-X", "PUT", *header,
                                  "--data", "7", self.env["SERVICE"] + "/accounts/17")
            self.assertEqual("428", status, header)
        self.assertEqual("100", resource.read())


if __name__ == "__main__":
    unittest.main()
