#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libdlock exports the public names of dlock:: and nothing else. usage: exports.py NM LIBRARY"""

import re
import subprocess
import sys

PUBLIC = re.compile(r"((vtable|typeinfo|typeinfo name|VTT|guard variable) for |(non-)?virtual thunk to )?"
                    r"dlock::(?!core::|store::|engine::|net::|db::)")
NEEDED = ("dlock::Client::open(", "dlock::Mutex::acquire(", "dlock::Lease::release()",
          "dlock::StdMutex::lock()", "dlock::LeaseId::parse(", "dlock::Key::parse(",
          "dlock::BootClock::now()", "dlock::version()", "dlock::dlock_category()", "dlock::default_fault(",
          "dlock::AcquireOptions::validate()")


def main():
    nm, library = sys.argv[1:]
    out = subprocess.run([nm, "-DC", "--defined-only", library], check=True, stdout=subprocess.PIPE).stdout
    rows = [line.split(None, 2) for line in out.decode().splitlines()]
    names = [row[2] for row in rows if len(row) == 3]
    foreign = [name for name in names if not PUBLIC.match(name) or "boost::" in name]
    missing = [needed for needed in NEEDED if not any(name.startswith(needed) for name in names)]
    for name in foreign:
        print("exported, but not of the public API:", name)
    for name in missing:
        print("not exported:", name, "(see src/dlock.map)")
    print(f"{len(names)} exported names looked at")
    return 1 if foreign or missing else 0


if __name__ == "__main__":
    sys.exit(main())
