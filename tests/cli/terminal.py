# SPDX-License-Identifier: Apache-2.0
"""A program on a terminal of its own."""
import os
import pty
import select
import signal

from support import DLOCK, LIMIT, Stream


class Terminal(Stream):
    """dlock, or another program, as the leader of a session on a new terminal."""

    def __init__(self, case, args, program=DLOCK):
        self.pid, fd = pty.fork()
        if self.pid == 0:
            os.execve(program, [program, *args], case.env)
        super().__init__(fd)
        self.ended = os.pidfd_open(self.pid)
        self.code = None
        case.addCleanup(self.end)

    def type(self, text):
        os.write(self.fd, text.encode())

    def foreground(self):
        return os.tcgetpgrp(self.fd)

    def wait(self, limit=LIMIT):
        """Its exit code; what it writes meanwhile is read, so that it cannot block on that."""
        while self.code is None:
            ready, _, _ = select.select([self.fd, self.ended], [], [], limit)
            if not ready:
                raise AssertionError(f"still running after {limit} s; there was {self.text!r}")
            if self.fd in ready:
                self._more()
            if self.ended in ready:
                self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.code

    def end(self):
        if self.code is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.ended)
        os.close(self.fd)
