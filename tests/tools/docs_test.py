#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether the docs still say what is true. usage: docs_test.py [ROOT]

- every test that a page names (`Suite.case`) exists, and each row of a table of guarantees names one;
- every C++, CMake, SQL, Lua and shell block says where it is cut from, and stands there line by line;
- every #anchor of a link is a heading of its page.
"""

import re
import sys
import textwrap
from pathlib import Path

CASE = re.compile(r"`([A-Z]\w+)\.(\w+)`")
DEFINED = re.compile(r"^TEST(?:_P|_F)?\(\s*(\w+)\s*,\s*(\w+)\s*\)", re.M)
BLOCK = re.compile(r"(?:<!-- cut from (\S+) -->\n)?```(\w+)\n(.*?)^```$", re.M | re.S)
CUT = ("cpp", "cmake", "sql", "lua", "sh")
ANCHOR = re.compile(r"\]\(([^)#\s:]*)#([^)\s]+)\)")


def line_of(text, at):
    return text.count("\n", 0, at) + 1


def stands_in(block, text):
    """Whether the lines of the block follow each other in the text, indented or not."""
    wanted, lines = block.splitlines(), text.splitlines()
    return any(textwrap.dedent("\n".join(lines[at:at + len(wanted)])).splitlines() == wanted
               for at in range(len(lines) - len(wanted) + 1))


def check_cases(text, cases):
    for match in CASE.finditer(text):
        if match.groups() not in cases:
            yield line_of(text, match.start()), f"there is no test {match[1]}.{match[2]}"


def check_guarantees(text):
    section = None
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#"):
            section = line.lstrip("# ")
        row = line.startswith("|") and not re.match(r"\|( |-)*-", line) and "proved by" not in line
        if section == "Guarantees" and row and not CASE.search(line):
            yield number, "a guarantee that names no test"


def check_blocks(text, root):
    for match in BLOCK.finditer(text):
        source, language, block = match.groups()
        line = line_of(text, match.start())
        if source is None:
            if language in CUT:
                yield line, "a block that is cut from nowhere: write <!-- cut from PATH --> before it"
        elif not (root / source).is_file():
            yield line, f"cut from {source}, which is not there"
        elif not stands_in(block, (root / source).read_text()):
            yield line, f"these lines do not stand in {source}"


def anchors_of(text):
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def check_anchors(page, text):
    for match in ANCHOR.finditer(text):
        target = (page.parent / match[1]) if match[1] else page
        if not target.is_file() or match[2] not in anchors_of(target.read_text()):
            yield line_of(text, match.start()), f"there is no heading for {match[1]}#{match[2]}"


def main(arguments):
    root = Path(arguments[0] if arguments else __file__).resolve()
    root = root if arguments else root.parent.parent.parent
    cases = {case for path in (root / "tests").rglob("*.cpp") for case in DEFINED.findall(path.read_text())}
    pages = [*sorted(root.glob("*.md")), *sorted((root / "docs").rglob("*.md"))]
    count = 0
    for page in pages:
        text = page.read_text()
        findings = [*check_cases(text, cases), *check_guarantees(text), *check_blocks(text, root),
                    *check_anchors(page, text)]
        for line, what in sorted(findings):
            print(f"{page.relative_to(root)}:{line}: {what}")
            count += 1
    named = sum(len(CASE.findall(page.read_text())) for page in pages)
    print(f"docs: {len(pages)} pages, {named} tests named, {count} findings")
    return 1 if count or not cases or not pages else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
