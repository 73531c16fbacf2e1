#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No public header but asio.hpp brings a third-party header to its user.
usage: standard_only.py COMPILER INCLUDE_DIR"""

import os
import re
import subprocess
import sys

THIRD_PARTY = re.compile(r'^# \d+ "([^"]*(?:/boost/|/hiredis|sqlite3\.h|/openssl/|sodium)[^"]*)"', re.M)


def third_party(compiler, include, source):
    command = [compiler, "-std=c++20", "-I", include, "-E", "-x", "c++", "-"]
    out = subprocess.run(command, input=source, check=True, stdout=subprocess.PIPE, text=True).stdout
    assert '"<stdin>"' in out, "the compiler names no files in its output"
    return THIRD_PARTY.findall(out)


def main():
    compiler, include = sys.argv[1:]
    names = sorted(name for name in os.listdir(os.path.join(include, "dlock")) if name != "asio.hpp")
    assert "dlock.hpp" in names and "client.hpp" in names, names
    assert third_party(compiler, include, "#include <boost/version.hpp>\n"), "the check does not find Boost"
    failed = 0
    for name in names:
        for header in third_party(compiler, include, f"#include <dlock/{name}>\n")[:1]:
            print(f"include/dlock/{name} includes {header}")
            failed = 1
    print(f"{len(names)} headers looked at")
    return failed


if __name__ == "__main__":
    sys.exit(main())
