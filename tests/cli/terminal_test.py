# SPDX-License-Identifier: Apache-2.0
"""Foreground, Ctrl-C and Ctrl-Z."""
import os
import shlex
import unittest

from support import DLOCK, Case
from terminal import Terminal

CTRL_C = "\x03"
CTRL_Z = "\x1a"


class Alone(Case):
    """dlock leads the session: there is no shell that could continue it."""

    def test_command_has_the_foreground(self):
        terminal = Terminal(self, ["run", "k", "--", "sh", "-c", "echo group $$; exec cat"])
        terminal.until("group ")
        group = int(terminal.line())
        self.assertEqual(group, terminal.foreground())
        self.assertNotEqual(group, terminal.pid)
        terminal.type("echoed\n")
        terminal.until("echoed\r\nechoed")
        terminal.type("\x04")
        self.assertEqual(0, terminal.wait())

    def test_ctrl_c_ends_the_command(self):
        terminal = Terminal(self, ["run", "k", "--", "sh", "-c", "echo ready; exec cat"])
        terminal.until("ready")
        terminal.type(CTRL_C)
        self.assertEqual(130, terminal.wait())
        self.assertEqual([], self.show()["holders"])

    def test_ctrl_c_ends_the_wait(self):
        self.holder()
        terminal = Terminal(self, ["run", "k", "--", "true"])
        terminal.until("waiting for k")
        terminal.type(CTRL_C)
        self.assertEqual(130, terminal.wait())
        self.assertEqual(0, self.show()["waiterCount"])

    def test_ctrl_z_without_a_shell_goes_on(self):
        terminal = Terminal(self, ["run", "k", "--", "sh", "-c", "echo ready; exec cat"])
        terminal.until("ready")
        terminal.type(CTRL_Z)
        terminal.type("alive\n")
        terminal.until("alive\r\nalive")
        terminal.type("\x04")
        self.assertEqual(0, terminal.wait())

    def test_terminal_modes_are_put_back_after_a_kill(self):
        script = f"{shlex.quote(DLOCK)} run k -- sh -c 'stty -echo; kill -9 $$'; stty -a"
        terminal = Terminal(self, ["-c", script], program="/bin/sh")
        self.assertIn(" echo ", terminal.until("echoctl"))


class WithShell(Case):
    def setUp(self):
        super().setUp()
        path = os.path.dirname(DLOCK) + ":" + self.env["PATH"]
        self.env |= {"PS1": "prompt> ", "TERM": "dumb", "PATH": path}
        self.shell = Terminal(self, ["--norc", "--noprofile", "--noediting", "-i"], program="/bin/bash")
        self.shell.until("prompt> ")

    def enter(self, line):
        self.shell.type(line + "\n")
        self.shell.until("\n")  # its echo

    def test_ctrl_z_and_fg(self):
        self.enter("dlock run k -- sh -c 'echo ready; exec cat'")
        self.shell.until("ready")
        self.shell.type(CTRL_Z)
        self.shell.until("Stopped")
        self.shell.until("prompt> ")
        self.enter("fg")
        self.shell.until("\n")
        self.shell.type("again\n")
        self.shell.until("again\r\nagain")
        self.shell.type("\x04")
        self.shell.until("prompt> ")
        self.enter("echo code $?")
        self.shell.until("code 0")

    def test_ctrl_z_past_the_lease_ends_the_command_on_fg(self):
        self.enter("dlock run --lease 1s k -- sh -c 'echo ready; exec cat'")
        self.shell.until("ready")
        self.shell.type(CTRL_Z)
        self.shell.until("Stopped")
        self.assertExit(0, self.dlock("run", "--wait", "20s", "k", "--", "true"))
        self.shell.until("prompt> ")
        self.enter("fg")
        self.shell.until("the lock is lost")
        self.shell.until("prompt> ")
        self.enter("echo code $?")
        self.shell.until("code 76")

    def test_ctrl_z_while_it_waits(self):
        holder = self.holder()
        self.enter("dlock run k -- echo had it")
        self.shell.until("waiting for k")
        self.shell.type(CTRL_Z)
        self.shell.until("Stopped")
        holder.close_stdin()
        self.assertEqual(0, holder.wait())
        self.shell.until("prompt> ")
        self.enter("fg")
        self.shell.until("\nhad it")

    def test_background_job_is_handed_the_terminal_by_fg(self):
        self.enter("dlock run k -- sh -c 'read line; echo got $line' &")
        self.shell.until("prompt> ")
        shown = ""
        while "Stopped" not in shown:  # it reads from the background; until() has a deadline
            self.enter("jobs")
            shown = self.shell.until("prompt> ")
            self.assertIn("dlock run", shown)
        self.enter("fg")
        self.shell.until("\n")
        self.shell.type("words\n")
        self.shell.until("got words")

    def test_pipeline_keeps_the_terminal_with_the_pager(self):
        self.enter("dlock run k -- sh -c 'echo one; exec cat >/dev/null </dev/null' | "
                   "sh -c 'cat; read line </dev/tty; echo pager got $line'")
        self.shell.until("one")
        self.shell.type("words\n")
        self.shell.until("pager got words")


if __name__ == "__main__":
    unittest.main()
