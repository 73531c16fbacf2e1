#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the rules of this tree that no compiler knows. usage: tools/tidy.py [ROOT]

Prints `file:line: [rule] what` for each finding and the fix for each rule that found one; exits 1 then.
Standard library only."""

import os
import re
import subprocess
import sys
from collections import namedtuple

Finding = namedtuple("Finding", "path line text")
Function = namedtuple("Function", "path line name length")

CODE = (".cpp", ".hpp")
MAX_LINES, LONG_LINES = 70, 35
COLUMNS, SCRIPT_COLUMNS = 110, 120
SPDX = "SPDX-License-Identifier: Apache-2.0"

# --- rooms ----------------------------------------------------------------------------------------

# Which rooms the files of a room may include, besides their own. `store` stands for src/store/<name>/.
ARROWS = {
    "api": set(),
    "core": {"api"},
    "seam": {"api", "core"},
    "store": {"api", "core", "seam", "net"},
    "registry": {"api", "core", "seam"},
    "registry.cpp": {"api", "core", "seam", "registry", "store"},
    "engine": {"api", "core", "seam", "registry"},
    "net": {"words"},
    "db": {"words"},
    "cli": {"api", "registry", "url", "net"},
    "examples": {"api"},
}
# Headers that a room may use although the rest of their room is closed to it.
PARTS = {
    "words": {"include/dlock/error.hpp", "include/dlock/result.hpp", "include/dlock/time.hpp"},
    "url": {"src/store/url.hpp"},
}
DB_STORES = {"sqlite", "postgres"}
FREE_ROOMS = {"tests", "bench"}

# Third-party headers that belong to a few places; everywhere else in src/ and include/ they are refused.
FOREIGN = (
    (r"boost/(asio|beast)", ("src/net/", "src/engine/asio_loop.", "include/dlock/asio.hpp")),
    (r"openssl/", ("src/net/", "src/store/redis/")),
    (r"hiredis", ("src/store/redis/",)),
    (r"sqlite3\.h", ("src/db/", "src/store/sqlite/")),
)
# The core has no I/O, clock or thread.
CORE_REFUSES = (r"(thread|mutex|shared_mutex|condition_variable|future|iostream|fstream"
                r"|poll\.h|sys/socket\.h|boost/.*)$")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def room_of(path):
    """("core", None), ("store", "redis"), ...; None for files outside every room."""
    if path.startswith("include/dlock/"):
        return "api", None
    if path in ("src/store/registry.cpp", "src/store/registry.hpp"):
        return ("registry.cpp" if path.endswith(".cpp") else "registry"), None
    if path.startswith("src/store/"):
        parts = path.split("/")
        return ("store", parts[2]) if len(parts) > 3 else ("seam", None)
    top = path.split("/")
    if top[0] == "src" and len(top) > 2:
        return top[1], None
    return top[0], None


def resolve(tree, path, target):
    """The file of this tree that an #include means, or None."""
    here = os.path.dirname(path)
    for base in (here, "include", "src", "tests", "bench"):
        candidate = os.path.normpath(os.path.join(base, target))
        if candidate in tree.files:
            return candidate
    return None


def allowed(source, target, target_path):
    (room, name), (other, other_name) = source, target
    if room == other and name == other_name:
        return True
    if room == "store" and other == "db":
        return name in DB_STORES
    if other in ARROWS[room]:
        return True
    return any(target_path in PARTS[part] for part in ARROWS[room] if part in PARTS)


def check_arrows(tree):
    for path in tree.code():
        room = room_of(path)
        if room[0] in FREE_ROOMS:
            continue
        if room[0] not in ARROWS:
            yield Finding(path, 1, f"'{room[0]}' is no room of ARROWS")
            continue
        for number, line in enumerate(tree.lines(path), 1):
            include = INCLUDE.match(line)
            if not include:
                continue
            target = resolve(tree, path, include[2])
            if target and not allowed(room, room_of(target), target):
                yield Finding(path, number, f"{'/'.join(filter(None, room))} may not include {include[2]}")
            if not target and include[1] == '"':
                yield Finding(path, number, f"{include[2]} is no file of this tree")
            if not target and include[1] == "<":
                yield from check_foreign(path, number, include[2])


def check_foreign(path, number, header):
    for pattern, places in FOREIGN:
        ours = path.startswith(("src/", "include/"))
        if ours and re.match(pattern, header) and not path.startswith(places):
            yield Finding(path, number, f"<{header}> belongs to {', '.join(places)}")
    if path.startswith("src/core/") and re.match(CORE_REFUSES, header):
        yield Finding(path, number, f"the core has no I/O, clock or thread: <{header}>")


# --- functions ------------------------------------------------------------------------------------

LITERAL = re.compile(
    r'//[^\n]*|/\*.*?\*/'                                # comments
    r'|R"(?P<d>[^\s()\\]{0,16})\(.*?\)(?P=d)"'           # raw strings
    r'|"(?:\\.|[^"\\\n])*"'                              # strings
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'",             # characters, but not the ' of 1'000
    re.S)
RAW = re.compile(r'R"([^\s()\\]{0,16})\(.*?\)\1"', re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)
SCOPE = re.compile(r"(inline\s+)?(namespace|class|struct|union|enum|extern)\b")
LABEL = re.compile(r"\s*(public|private|protected)\s*:(?!:)")


def blank(match):
    return re.sub(r"[^\n]", " ", match[0])


def bare(text):
    """The code without comments, literals and directives; every character that stays keeps its place."""
    return DIRECTIVE.sub(blank, LITERAL.sub(blank, text))


def without_template(head):
    head = head.strip()
    while head.startswith("template"):
        depth, end = 0, len(head)
        for index, char in enumerate(head):
            depth += (char == "<") - (char == ">" and head[index - 1] != "-")
            if char == ">" and depth == 0:
                end = index + 1
                break
        head = head[end:].strip()
    return head


def kind_of(head):
    """What a `{` opens, told by the text before it: scope, function, or value (an initialiser)."""
    head = re.sub(r"\[\[.*?\]\]", "", without_template(head)).strip()
    if SCOPE.match(head):
        return "scope"
    plain = re.sub(r"operator\s*(\(\)|[^\s\w(]+)", "operator", head)
    outside = re.sub(r"\([^()]*(\([^()]*\)[^()]*)*\)", "", plain)
    assigned = re.search(r"(?<![=!<>])=(?!=)", outside)
    return "value" if "(" not in plain or assigned else "function"


def in_initialisers(head):
    """Whether a `{` stands in a constructor's list of initialisers: `A(int x) : a_{x}, ...`"""
    return re.search(r"\)\s*(noexcept\s*)?:[^:]", head) and re.search(r"[\w>]\s*$", head)


def name_of(head):
    names = re.findall(r"([\w:~]+|operator\s*\S+)\s*\(", without_template(head))
    return names[0] if names else "?"


def functions(path, text):
    """The outermost functions of a file: a brace scan, good for code that clang-format has been over."""
    code = bare(text)
    stack, head_start, found = [], 0, []
    for match in re.finditer(r"[{};]", code):
        at, char = match.start(), match[0]
        inside = any(kind != "scope" for kind, _, _ in stack)
        if char == "{":
            head = LABEL.sub(blank, code[head_start:at])
            kind = "value" if inside or in_initialisers(head) else kind_of(head)
            stack.append((kind, head_start + len(head) - len(head.lstrip()), name_of(head)))
            inside = inside or kind == "value"
        elif char == "}" and stack:
            kind, start, name = stack.pop()
            if kind == "function":
                first = code.count("\n", 0, start) + 1
                found.append(Function(path, first, name, code.count("\n", 0, at) + 2 - first))
            inside = kind == "value"
        if not inside:
            head_start = at + 1
    return found


def check_functions(tree):
    for function in tree.functions():
        if function.length > MAX_LINES:
            yield Finding(function.path, function.line, f"{function.name} has {function.length} lines")


# --- words in code --------------------------------------------------------------------------------


def search(tree, files, pattern, say):
    regex = re.compile(pattern)
    for path in files:
        for number, line in enumerate(tree.bare_lines(path), 1):
            match = regex.search(line)
            if match:
                yield Finding(path, number, say.format(match[0].strip().rstrip("(")))


def check_sleeps(tree):
    code = [path for path in tree.code() if path.startswith("tests/")]
    yield from search(tree, code, r"\b(sleep_for|sleep_until|usleep|(clock_)?nanosleep|sleep)\s*\(",
                      "{} in a test")
    scripts = [path for path in tree.files if path.startswith("tests/") and path.endswith(".py")]
    yield from search(tree, scripts, r"\btime\.sleep\s*\(", "{} in a test")


PRINTERS = ("src/cli/", "tests/", "bench/", "examples/")


def check_prints(tree):
    files = [path for path in tree.code() if not path.startswith(PRINTERS)]
    yield from search(tree, files, r"\b(v?f?printf|f?puts|putchar|perror)\s*\(|\bstd::(cout|cerr|clog)\b",
                      "{} in the library")


# Who may ask what time it is on the wall: the command line, for people; memory and sqlite, whose store time
# is this host's (fences, `since`); the check of redis, which tells people how far the two clocks are apart.
WALL = ("src/cli/", "src/store/memory/", "src/store/sqlite/", "src/store/redis/check.cpp", "tests/", "bench/",
        "examples/")


def check_clocks(tree):
    files = [path for path in tree.code() if not path.startswith(WALL)]
    yield from search(tree, files, r"\bsystem_clock::now|\bCLOCK_REALTIME\w*|\bgettimeofday\b",
                      "{} outside its places")
    library = [path for path in tree.code() if path.startswith(("src/", "include/"))]
    yield from search(tree, library, r"\b(steady_clock|high_resolution_clock)::now",
                      "{}: it stops while the host sleeps")


def await_expression(code, start):
    """From `co_await` to the end of its full expression."""
    depth = 0
    for index in range(start, len(code)):
        char = code[index]
        depth += (char in "([{") - (char in ")]}")
        if depth < 0 or (depth == 0 and char == ";"):
            return code[start:index]
    return code[start:]


def check_awaits(tree):
    for path in tree.code():
        code = bare(tree.text(path))
        for match in re.finditer(r"\bco_await\b", code):
            expression = await_expression(code, match.start())
            if re.search(r"[{?]", expression) and not path.startswith("tests/tools/samples/"):
                yield Finding(path, code.count("\n", 0, match.start()) + 1,
                              "a braced list, lambda or conditional inside co_await")


# --- files ----------------------------------------------------------------------------------------


def check_dead_code(tree):
    lists = {os.path.dirname(path): tree.text(path) for path in tree.files
             if os.path.basename(path) == "CMakeLists.txt"}
    included = set()
    for path in tree.code():
        for line in tree.lines(path):
            include = INCLUDE.match(line)
            target = include and resolve(tree, path, include[2])
            if target and target != path:
                included.add(target)
    for path in tree.code():
        if path.startswith("tests/tools/samples/") or path.startswith("include/"):
            continue
        if path.endswith(".hpp") and path not in included:
            yield Finding(path, 1, "a header that nobody includes")
        if path.endswith(".cpp") and not is_listed(path, lists):
            yield Finding(path, 1, "a source that no CMakeLists.txt names")


def is_listed(path, lists):
    folder = os.path.dirname(path)
    while True:
        name = re.escape(os.path.relpath(path, folder or "."))
        if folder in lists and re.search(rf"(?<![\w.]){name}(?!\w)", lists[folder]):
            return True
        if not folder:
            return False
        folder = os.path.dirname(folder)


LINK = re.compile(r"\]\(<?([^)#>\s]+)[^)]*\)")


def check_pages(tree):
    pages = [path for path in tree.files if path.endswith(".md")]
    reached, todo = set(), [path for path in pages if "/" not in path]
    while todo:
        page = todo.pop()
        if page in reached:
            continue
        reached.add(page)
        for number, line in enumerate(tree.lines(page), 1):
            for target in LINK.findall(line):
                if re.match(r"[a-z]+:", target):
                    continue
                path = os.path.normpath(os.path.join(os.path.dirname(page), target))
                if path in pages:
                    todo.append(path)
                elif path not in tree.files and not any(file.startswith(path + "/") for file in tree.files):
                    yield Finding(page, number, f"a link to {target}, which is not there")
    for page in pages:
        if page not in reached:
            yield Finding(page, 1, "a page that no other page links")


def check_text(tree):
    for path in tree.files:
        if path == "LICENSE":
            continue
        text, lines = tree.text(path), tree.lines(path)
        source = path.endswith(CODE + (".py", ".lua")) or text.startswith("#!")
        if source and not any(SPDX in line for line in lines[:2 if text.startswith("#!") else 1]):
            yield Finding(path, 1, f"the first line is not '{SPDX}'")
        if text and not text.endswith("\n"):
            yield Finding(path, len(lines), "no newline at the end")
        for number, line in enumerate(lines, 1):
            if "\t" in line or line != line.rstrip():
                yield Finding(path, number, "a tab or a space at the end of the line")
        # The text of a raw string has a layout of its own.
        code = RAW.sub(blank, text) if path.endswith(CODE) else text
        for number, line in enumerate(code.split("\n") if source else (), 1):
            if len(line.rstrip()) > (COLUMNS if path.endswith(CODE) else SCRIPT_COLUMNS):
                yield Finding(path, number, f"{len(line.rstrip())} columns")


PRIVATE = re.compile(r"(?<![\w.])/(wor[k]|roo[t]|home/\w+|Users/\w+)/\w"
                     r"|\b(deb\.debian|pypi|files\.pythonhosted|registry\.npmjs|proxy\.golang|crates)"
                     r"\.(org|io)\b")


def check_private(tree):
    for path in tree.files:
        for number, line in enumerate(tree.lines(path), 1):
            match = PRIVATE.search(line)
            if match:
                yield Finding(path, number, f"'{match[0]}' speaks of one machine or its package source")


def check_unfinished(tree):
    for path in tree.code():
        for number, line in enumerate(tree.lines(path), 1):
            if re.search(r"\b(TOD[O]|FIXM[E]|XX[X])\b", line):
                yield Finding(path, number, "unfinished work")


# --- all together ---------------------------------------------------------------------------------

RULES = (
    ("arrows", check_arrows, "see the rooms in CONTRIBUTING.md; move the code or go through the seam"),
    ("function-length", check_functions, f"split it: none over {MAX_LINES} lines"),
    ("sleep", check_sleeps, "wait for the event, with a deadline"),
    ("print", check_prints, "return an Error or tell the observer"),
    ("clock", check_clocks, "use the store's time, or BootClock through the loop"),
    ("co_await", check_awaits, "GCC 12 frees it twice: name it in the line before"),
    ("dead-code", check_dead_code, "delete it, or list or include it"),
    ("pages", check_pages, "link it from README.md or docs/index.md, or mend the link"),
    ("text", check_text, f"SPDX first, {COLUMNS} columns, no tab or trailing space; run clang-format-14 -i"),
    ("private", check_private, "the project speaks of itself only"),
    ("unfinished", check_unfinished, "finish it or open an issue"),
)
SKIPPED = {".git", "build", "__pycache__", ".cache"}
TEXT = CODE + (".py", ".md", ".txt", ".cmake", ".json", ".map", ".lua", ".sql", ".yml", ".in")


class Tree:
    """The text files of a checkout (those that git knows or would add), read once."""

    def __init__(self, root):
        self.root = root
        self._text = {}
        self._bare = {}
        self.files = {path for path in self._names() if self._is_text(path)}

    def _names(self):
        if os.path.exists(os.path.join(self.root, ".git")):
            command = ["git", "ls-files", "-coz", "--exclude-standard"]
            out = subprocess.run(command, cwd=self.root, check=True, stdout=subprocess.PIPE).stdout.decode()
            return [path for path in out.split("\0") if os.path.isfile(os.path.join(self.root, path))]
        found = []
        for folder, folders, names in os.walk(self.root):
            folders[:] = [name for name in folders if name not in SKIPPED]
            found += [os.path.relpath(os.path.join(folder, name), self.root) for name in names]
        return found

    def _is_text(self, path):
        if path.endswith(TEXT):
            return True
        with open(os.path.join(self.root, path), "rb") as file:
            return "." not in os.path.basename(path)[1:] and b"\0" not in file.read(1024)

    def text(self, path):
        if path not in self._text:
            with open(os.path.join(self.root, path), "rb") as file:
                self._text[path] = file.read().decode(errors="replace")
        return self._text[path]

    def lines(self, path):
        lines = self.text(path).split("\n")
        return lines[:-1] if lines[-1] == "" else lines

    def bare_lines(self, path):
        if path not in self._bare:
            self._bare[path] = (bare(self.text(path)) if path.endswith(CODE) else self.text(path)).split("\n")
        return self._bare[path]

    def code(self):
        return sorted(path for path in self.files if path.endswith(CODE))

    def functions(self):
        return [function for path in self.code() for function in functions(path, self.text(path))]


def main(arguments):
    root = arguments[0] if arguments else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    tree = Tree(root)
    count = 0
    for name, check, fix in RULES:
        findings = sorted(check(tree))
        for finding in findings:
            print(f"{finding.path}:{finding.line}: [{name}] {finding.text}")
        if findings:
            print(f"  fix [{name}]: {fix}")
        count += len(findings)
    every = tree.functions()
    long = sum(function.length > LONG_LINES for function in every)
    print(f"tidy: {len(tree.files)} files, {len(every)} functions, {long} of them over {LONG_LINES} lines, "
          f"{count} finding{'' if count == 1 else 's'}")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
