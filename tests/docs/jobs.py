# SPDX-License-Identifier: Apache-2.0
"""Runs the samples of docs/jobs.md in a folder of their own, with stand-ins for the programs they call."""
import os
import subprocess

from support import DLOCK, LIMIT, Case, Running

SAMPLES = os.path.join(os.environ["DLOCK_SOURCE"], "examples", "jobs")


class Jobs(Case):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("bin"))
        os.symlink(DLOCK, self.path("bin/dlock"))
        self.env["PATH"] = self.path("bin") + ":" + self.env["PATH"]

    def stand_in(self, name, does):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{does}\n")
        os.chmod(self.path(name), 0o755)

    def blocking(self, name):
        """Says that it runs and with what, then blocks until its stdin is closed."""
        self.stand_in(name, 'echo "ready $*"; exec cat')

    def job(self, name, *args, env=None):
        return subprocess.run([os.path.join(SAMPLES, name), *args], cwd=self.folder, env=self.env | (env or {}),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT * 2)

    def start_job(self, name, *args):
        running = Running([os.path.join(SAMPLES, name), *args], self.env, cwd=self.folder)
        self.addCleanup(running.end)
        return running

    def lines(self, name):
        try:
            with open(self.path(name), encoding="utf-8") as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []
