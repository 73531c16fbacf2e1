#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libdlock works in a program that has another Boost. usage: other_boost.py NM LIBRARY OBJECT FOLDER COMPILER...

The program (other_boost.cpp) exports a name for every symbol of Boost that libdlock has or wants. Who calls one of
them dies, since they are data; so one call of libdlock's that leaves it for the program's Boost fails the test."""

import os
import re
import subprocess
import sys
import tempfile

BOOST = re.compile(r"_Z\w*5boost\w+$")


def boost_names(nm, *words):
    out = subprocess.run([nm, *words], check=True, stdout=subprocess.PIPE, text=True).stdout
    return {line.split()[-1] for line in out.splitlines() if BOOST.match(line.split()[-1])}


def main():
    nm, library, program_object, folder, *compiler = sys.argv[1:]
    compiler = [word for word in compiler if word]
    traps = boost_names(nm, library) | boost_names(nm, "-D", library)
    own = boost_names(nm, "--defined-only", program_object)
    assert len(traps) > 100 and own & traps, f"{len(traps)} names of Boost in {library}, {own} in the program"
    with tempfile.TemporaryDirectory(dir=folder) as place:
        source, program = os.path.join(place, "traps.s"), os.path.join(place, "program")
        with open(source, "w", encoding="ascii") as file:
            file.write(".data\n" + "".join(f".globl {name}\n{name}:\n" for name in sorted(traps - own)))
            file.write(".zero 64\n.section .note.GNU-stack,\"\",%progbits\n")
        link = [*compiler, source, program_object, library, "-rdynamic", "-o", program,
                "-Wl,-rpath," + os.path.dirname(library)]
        subprocess.run(link, check=True)
        exported = boost_names(nm, "-D", "--defined-only", program)
        assert traps <= exported, f"not exported by the program: {sorted(traps - exported)[:5]}"
        status = subprocess.run([program, place], check=False).returncode
    print(f"{len(traps)} names of Boost stand in the program; it ended with {status}")
    return 1 if status else 0


if __name__ == "__main__":
    sys.exit(main())
