#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libdlock exports the names of its list and nothing of others. usage: exports.py NM LIBRARY LIST [--update]

The list has what is defined once, in the library: that is the ABI. Inline functions are weak and come and go with the
compiler's mind; of them, as of all, only the public names of dlock:: may be exported. Nothing of Boost may be wanted
from outside either: a program with another Boost would give it."""

import difflib
import re
import subprocess
import sys

PUBLIC = re.compile(r"((vtable|typeinfo|typeinfo name|VTT|guard variable) for |(non-)?virtual thunk to )?"
                    r"dlock::(?!core::|store::|engine::|net::|db::)")
HEAD = "# What libdlock exports. The test headers.exports compares, and says how to update it.\n"


def symbols(nm, library, which):
    """(type, demangled name) of each dynamic symbol."""
    out = subprocess.run([nm, "-DC", which, library], check=True, stdout=subprocess.PIPE).stdout
    for line in out.decode().splitlines():
        found = re.match(r"[0-9a-f]* +(\w) (.*)", line)
        yield found[1], found[2]


def main():
    nm, library, path, *update = sys.argv[1:]
    exported = list(symbols(nm, library, "--defined-only"))
    strong = sorted({name for kind, name in exported if kind not in "VWuvw"})
    text = HEAD + "".join(name + "\n" for name in strong)
    if update:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    foreign = [name for _, name in exported if not PUBLIC.match(name) or "boost::" in name]
    foreign += [name for _, name in symbols(nm, library, "--undefined-only") if "boost::" in name]
    with open(path, encoding="utf-8") as file:
        before = file.read()
    for line in difflib.unified_diff(before.splitlines(), text.splitlines(), path, library, "", "", 0, ""):
        print(line)
    if before != text:
        print("When that is meant (docs/packages.md says what it does to the version):\n "
              f" python3 {sys.argv[0]} {nm} {library} {path} --update")
    for name in foreign:
        print("exported or wanted, but not of the public API:", name)
    print(f"{len(exported)} exported names looked at, {len(strong)} of them in the list")
    return 1 if foreign or before != text else 0


if __name__ == "__main__":
    sys.exit(main())
