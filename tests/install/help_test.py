#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The man page or the completion of a shell has each verb and option of the command's own help.
usage: help_test.py man|bash|zsh|fish DLOCK PACKAGING. Exit code 77: that shell is not installed."""

import os
import re
import shutil
import subprocess
import sys
import tempfile

BASH = r"""
source "$1/completion/dlock.bash"
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE}
_dlock "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\n' "${COMPREPLY[@]}"
"""
# The functions of zsh's own completion system that ours ends in: they tell what they were given.
ZSH = r"""
folder=$1
shift
_describe() { [[ $1 != -o ]] || shift; print -rl -- "${(@)${(@P)2}%%:*}" }
compadd() { print -rl -- "${(@P)2}" }
_files() { print -rl -- ${words[CURRENT]}*(N) }
_normal() { print -r -- "command: $words[CURRENT]" }
words=("$@") CURRENT=$#
source $folder/completion/_dlock
"""
FISH = r"""
source $argv[1]/completion/dlock.fish
complete -C (string join ' ' -- $argv[2..]) | string replace -r '\t.*' ''; or true
"""


def output(*command, **options):
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    assert not done.stderr, done.stderr
    return done.stdout


def names_in(text, section):
    rows = re.search(rf"^{section}.*?\n(.*?)(?:\n\n|\Z)", text, re.M | re.S)[1]
    return [name for row in rows.splitlines() if row[2] != " " for name in row.split()[0].split(",")]


class Shell:
    def __init__(self, name, script, packaging, folder):
        self.command = [name, *{"zsh": ["-f"], "fish": ["--no-config"]}.get(name, ["--norc"]), "-c", script]
        self.command += {"bash": ["bash"], "zsh": ["zsh"]}.get(name, []) + [packaging]
        self.folder = folder

    def offers(self, *words):
        return set(output(*self.command, "dlock", *words, cwd=self.folder).split("\n")) - {""}


def check_shell(name, script, verbs, packaging):
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(DLOCK_STORE=f"sqlite:{folder}/locks.db", HOME=folder)
        shell = Shell(name, script, packaging, folder)
        equal(set(verbs), {word for word in shell.offers("") if not word.startswith("-")}, "verbs")
        equal({"release", "renew", "resign"}, shell.offers("re"), "verbs with re") if name == "bash" else None
        for verb, options in verbs.items():
            offered = shell.offers("--store", "memory:x", verb, "-")
            equal(set(), set(options) - offered, f"options of {verb} that are not offered")
        output("dlock", "acquire", "--local", "--id-file", folder + "/one.id", "jobs/nightly")
        equal({"jobs/nightly"}, shell.offers("show", "jobs/"), "keys")
        output("dlock", "acquire", "--local", "--id-file", folder + "/two.id", "jobs/$(touch${IFS}ran)`touch ran`")
        equal(2, len(shell.offers("show", "jobs/")), "keys, one of which looks like a command")
        assert not os.path.exists(folder + "/ran"), "the completion ran what stands in a key"
        equal({"one.id"}, shell.offers("release", "--id-file", "one"), "files")
        equal(set(), shell.offers("run", "--lease", ""), "words behind an option with a value")
        behind = shell.offers("run", "jobs/nightly", "--", "dpkg-quer")
        equal(1, len([word for word in behind if "dpkg-quer" in word]), "commands behind --")


def equal(wanted, found, what):
    assert wanted == found, f"{what}: wanted {wanted}, found {found}"


def named(text):
    return set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", text))


def check_man(verbs, packaging):
    page = os.path.join(packaging, "dlock.1")
    if shutil.which("man") is None:
        return "man is not installed"
    shown = output("man", "--warnings", "-l", page, env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "80"})
    with open(page, encoding="utf-8") as file:
        text = file.read().replace("\\-", "-")
    sections = dict(re.findall(r'^\.SS (\S+)\n(.*?)(?=^\.S|\Z)', text, re.M | re.S))
    common = named(re.search(r"^\.SH OPTIONS\n(.*?)^\.SH", text, re.M | re.S)[1])
    equal(set(verbs), set(sections), "verbs")
    for verb, options in verbs.items():
        known = common | named(sections[verb])
        equal(set(), set(options) - known, f"options of {verb} that the man page has not")
    assert "force-release" in shown, shown
    return None


def main():
    what, dlock, packaging = sys.argv[1:]
    os.environ["PATH"] = os.path.dirname(dlock) + ":" + os.environ["PATH"]
    verbs = {verb: names_in(output(dlock, verb, "--help"), "Options")
             for verb in names_in(output(dlock, "--help"), "Verbs")}
    assert "run" in verbs and "--lease" in verbs["run"], verbs
    if what != "man" and shutil.which(what) is None:
        print(f"{what} is not installed")
        return 77
    if what == "man":
        skipped = check_man(verbs, packaging)
        print(skipped or "man: fine")
        return 77 if skipped else 0
    check_shell(what, {"bash": BASH, "zsh": ZSH, "fish": FISH}[what], verbs, packaging)
    print(f"{what}: {len(verbs)} verbs, {sum(map(len, verbs.values()))} options")
    return 0


if __name__ == "__main__":
    sys.exit(main())
