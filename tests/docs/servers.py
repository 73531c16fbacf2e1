# SPDX-License-Identifier: Apache-2.0
"""Real servers for the samples of the docs: each on a free loopback port, in a folder of the test, ended by its pid."""
import glob
import os
import pwd
import signal
import socket
import subprocess
import sys

from support import Stream

START = 120.0  # seconds for a server to be made and to be ready, on a machine that does other things


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A process that says when it is ready."""

    def __init__(self, case, command, ready, end_by=signal.SIGKILL, **how):
        # Its own log, so that a full pipe never stops it and a failure can be read.
        self.end_by = end_by
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, **how)
        case.addCleanup(self.end)
        self.said = Stream(self.process.stdout.fileno()).until(ready, START)

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(self.end_by)
        self.process.wait()
        self.process.stdout.close()


def run(command, **how):
    done = subprocess.run(command, capture_output=True, text=True, timeout=START, stdin=subprocess.DEVNULL, **how)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def start_postgresql(case):
    """Sets PGHOST, PGPORT, ... in the case's environment. PostgreSQL refuses root, so root gives it away."""
    programs = sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1]
    folder, port, how = case.path("server"), str(free_port()), {}
    os.mkdir(folder)
    if os.getuid() == 0:
        names = {entry.pw_name for entry in pwd.getpwall()}
        user = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
        os.chmod(case.folder, 0o711)
        os.chown(folder, user.pw_uid, user.pw_gid)
        how = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    how |= {"cwd": folder, "env": {"PATH": os.environ["PATH"], "LC_ALL": "C"}}
    run([f"{programs}/initdb", "-D", f"{folder}/data", "-A", "trust", "-U", "dlock", "--no-sync", "-E", "UTF8",
         "--locale=C"], **how)
    Server(case, [f"{programs}/postgres", "-D", f"{folder}/data", "-p", port, "-c", "listen_addresses=127.0.0.1",
                  "-c", f"unix_socket_directories={folder}", "-c", "fsync=off"],
           "ready to accept connections", signal.SIGQUIT, **how)
    case.env |= {"PGHOST": "127.0.0.1", "PGPORT": port, "PGUSER": "dlock", "PGDATABASE": "postgres"}


def start_mysql(case):
    """Writes ~/.my.cnf of the case."""
    folder, port = case.path("server"), free_port()
    os.mkdir(folder)
    as_user = ["--user=root"] if os.getuid() == 0 else []
    run(["mariadb-install-db", "--no-defaults", f"--datadir={folder}/data", "--skip-test-db", *as_user,
         "--auth-root-authentication-method=normal"])
    Server(case, ["mariadbd", "--no-defaults", *as_user, f"--datadir={folder}/data", f"--socket={folder}/s",
                  f"--port={port}", "--bind-address=127.0.0.1", f"--pid-file={folder}/pid", "--skip-log-bin"],
           "ready for connections")
    with open(case.path(".my.cnf"), "w", encoding="utf-8") as file:
        file.write(f"[client]\nhost=127.0.0.1\nport={port}\nuser=root\n[mysql]\ndatabase=mysql\n")
    os.chmod(case.path(".my.cnf"), 0o600)


def start_python(case, program, *arguments):
    """A server that prints its port."""
    server = Server(case, [sys.executable, "-B", program, *arguments], "\n")
    return int(server.said)
