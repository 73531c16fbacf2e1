# SPDX-License-Identifier: Apache-2.0
"""What the tests of the command share: a store of their own, real processes, waits with a deadline."""
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

DLOCK = os.environ["DLOCK_BINARY"]
LIMIT = 20.0  # seconds for anything to happen at all

# Says that it runs, then blocks until its stdin is closed.
HOLD = ["sh", "-c", "echo ready; exec cat"]


def wait_gone(pidfd, limit):
    """Whether the process ended within so many seconds."""
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return bool(poller.poll(limit * 1000))


class Stream:
    """Text of a pipe or terminal, read until something is in it."""

    def __init__(self, fd):
        self.fd = fd
        self.text = ""

    def until(self, wanted, limit=LIMIT):
        """Everything up to and with the wanted text; what follows stays for the next call."""
        end = time.monotonic() + limit
        while wanted not in self.text:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                raise AssertionError(f"no {wanted!r} within {limit} s; there was {self.text!r}")
            if not self._more():
                raise AssertionError(f"ended without {wanted!r}; there was {self.text!r}")
        head, _, self.text = self.text.partition(wanted)
        return head + wanted

    def line(self):
        return self.until("\n").rstrip("\n")

    def _more(self):
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # the other side of a terminal is gone
            return False
        self.text += data.decode(errors="replace")
        return bool(data)


class Running:
    """One dlock in the background."""

    def __init__(self, args, env, **how):
        self.process = subprocess.Popen(args, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, **how)
        self.pid = self.process.pid
        self.out = Stream(self.process.stdout.fileno())
        self.err = Stream(self.process.stderr.fileno())

    def kill(self, number):
        os.kill(self.pid, number)

    def close_stdin(self):
        self.process.stdin.close()

    def wait(self, limit=LIMIT):
        return self.process.wait(limit)

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe.close()


class Redis:
    """A server of its own on a free port."""

    def __init__(self, case, *options):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.port = port
        self.url = f"redis://127.0.0.1:{port}/0"
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
             "--dir", case.folder, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        case.addCleanup(self.end)
        Stream(self.process.stdout.fileno()).until("Ready to accept connections")

    def command(self, *words):
        """One command as an administrator; its answer as redis-cli prints it."""
        done = subprocess.run(["redis-cli", "-p", str(self.port), *words], capture_output=True, text=True,
                              timeout=LIMIT, check=True)
        return done.stdout.rstrip("\n")

    def end(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="dlock-cli-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.db = self.path("locks.db")
        self.env = {"PATH": os.environ["PATH"], "HOME": self.folder, "TMPDIR": self.folder,
                    "DLOCK_STORE": f"sqlite:{self.db}"}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS"):
            if name in os.environ:
                self.env[name] = os.environ[name]

    def path(self, name):
        return os.path.join(self.folder, name)

    def dlock(self, *args, env=None, **how):
        """Runs it to its end."""
        how.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run([DLOCK, *args], env=self.env | (env or {}), capture_output="stdout" not in how,
                              text=True, timeout=LIMIT * 2, **how)

    def start(self, *args, env=None, **how):
        running = Running([DLOCK, *args], self.env | (env or {}), **how)
        self.addCleanup(running.end)
        return running

    def holder(self, key="k", *options):
        """A dlock that runs HOLD under the key."""
        running = self.start("run", *options, key, "--", *HOLD)
        self.assertEqual("ready", running.out.line())
        return running

    def pidfd(self, pid):
        fd = os.pidfd_open(pid)
        self.addCleanup(os.close, fd)
        return fd

    def fifo(self):
        path = self.path("fifo")
        os.mkfifo(path)
        return path

    def json(self, *args, code=0, env=None):
        done = self.dlock(*args, "--json", env=env)
        self.assertEqual(code, done.returncode, done.stderr + done.stdout)
        return json.loads(done.stdout)

    def show(self, key="k"):
        return self.json("show", key)

    def status(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return json.load(file)

    def assertExit(self, code, done):
        self.assertEqual(code, done.returncode, f"stdout {done.stdout!r}, stderr {done.stderr!r}")
