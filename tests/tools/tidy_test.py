#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each rule of tools/tidy.py finds what it is for, in a small tree, and nothing else there."""

import os
import subprocess
import sys
import tempfile
import unittest

TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools")
sys.path.insert(0, TOOLS)
import tidy  # noqa: E402

SPDX = "// SPDX-License-Identifier: Apache-2.0\n"
CLEAN = {
    "README.md": "[guide](docs/index.md)\n",
    "docs/index.md": "Words.\n",
    "include/dlock/key.hpp": SPDX + "#pragma once\n#include <string>\n",
    "src/CMakeLists.txt": (
        "add_library(x core/rule.cpp store/registry.cpp store/redis/redis.cpp engine/loop.cpp)\n"),
    "src/core/rule.hpp": SPDX + '#include "dlock/key.hpp"\n',
    "src/core/rule.cpp": SPDX + '#include "core/rule.hpp"\nint rule() { return 1; }\n',
    "src/store/store.hpp": SPDX + '#include "core/rule.hpp"\n',
    "src/store/registry.hpp": SPDX + '#include "store/store.hpp"\n',
    "src/store/registry.cpp": SPDX + '#include "store/registry.hpp"\n#include "store/redis/redis.hpp"\n',
    "src/store/redis/redis.hpp": SPDX + '#include "store/store.hpp"\n',
    "src/store/redis/redis.cpp": SPDX + '#include "store/redis/redis.hpp"\n#include <hiredis/read.h>\n',
    "src/engine/loop.cpp": SPDX + '#include "store/registry.hpp"\n',
    "tests/CMakeLists.txt": "add_executable(t unit/t.cpp)\n",
    "tests/unit/t.cpp": SPDX + '#include "core/rule.hpp"\n#include "store/redis/redis.hpp"\n',
}


def findings(change):
    """What tidy finds in the clean tree with `change` made to it, as (rule, path, line)."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in {**CLEAN, **change}.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)) or root, exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
        tree = tidy.Tree(root)
        return [(name, found.path, found.line) for name, check, _ in tidy.RULES for found in check(tree)]


def append(path, text):
    return {path: CLEAN[path] + text}


def core(text):
    return append("src/core/rule.cpp", text)


def engine(text):
    return append("src/engine/loop.cpp", text)


def unit(text):
    return append("tests/unit/t.cpp", text)


class Rules(unittest.TestCase):
    def finds(self, rule, path, line, change):
        self.assertEqual([(rule, path, line)], findings(change))

    def test_a_clean_tree_has_no_finding(self):
        self.assertEqual([], findings({}))

    def test_arrows_that_point_back(self):
        for path, header in (
                ("src/core/rule.cpp", "store/store.hpp"),
                ("src/store/store.hpp", "store/registry.hpp"),
                ("src/store/redis/redis.cpp", "store/registry.hpp"),
                ("src/engine/loop.cpp", "store/redis/redis.hpp"),
                ("include/dlock/key.hpp", "core/rule.hpp"),
        ):
            with self.subTest(path=path, header=header):
                line = CLEAN[path].count("\n") + 1
                self.finds("arrows", path, line, append(path, f'#include "{header}"\n'))

    def test_a_store_may_not_include_another(self):
        change = {"src/CMakeLists.txt": CLEAN["src/CMakeLists.txt"] + "store/etcd/etcd.cpp\n",
                  "src/store/etcd/etcd.cpp": SPDX + '#include "store/redis/redis.hpp"\n'}
        self.finds("arrows", "src/store/etcd/etcd.cpp", 2, change)

    def test_net_and_db_know_no_lock(self):
        lists = {"src/CMakeLists.txt": CLEAN["src/CMakeLists.txt"] + "net/tls.cpp db/handle.cpp\n",
                 "include/dlock/result.hpp": SPDX}
        for path in ("src/net/tls.cpp", "src/db/handle.cpp"):
            other = ({"src/net/tls.cpp", "src/db/handle.cpp"} - {path}).pop()
            change = {**lists, other: SPDX}
            change[path] = SPDX + '#include "dlock/result.hpp"\n#include "dlock/key.hpp"\n'
            self.finds("arrows", path, 3, change)

    def test_db_is_for_the_stores_on_it(self):
        change = {"src/CMakeLists.txt": CLEAN["src/CMakeLists.txt"] + "store/sqlite/s.cpp\n",
                  "src/db/handle.hpp": SPDX,
                  "src/store/sqlite/s.cpp": SPDX + '#include "db/handle.hpp"\n'}
        self.assertEqual([], findings(change))
        change["src/store/redis/redis.cpp"] = SPDX + '#include "db/handle.hpp"\n'
        self.finds("arrows", "src/store/redis/redis.cpp", 2, change)

    def test_an_unknown_room_and_an_unknown_file(self):
        gone = append("src/store/store.hpp", '#include "core/gone.hpp"\n')
        self.finds("arrows", "src/store/store.hpp", 3, gone)
        change = {**append("src/CMakeLists.txt", "extra/e.cpp\n"), "src/extra/e.cpp": SPDX}
        self.finds("arrows", "src/extra/e.cpp", 1, change)

    def test_foreign_headers_stay_in_their_places(self):
        for header in ("hiredis/read.h", "sqlite3.h", "openssl/ssl.h", "boost/asio/post.hpp"):
            with self.subTest(header=header):
                self.finds("arrows", "src/engine/loop.cpp", 3, engine(f"#include <{header}>\n"))
        self.finds("arrows", "src/core/rule.hpp", 3, append("src/core/rule.hpp", "#include <thread>\n"))

    def test_a_long_function(self):
        body = "    f();\n"
        for head in ("void long_one() {\n", "template <class T>\nA<T>::A(int x) : a_{x}, b_(x) {\n",
                     "namespace a {\nclass B {\npublic:\n    bool operator()(int x) const noexcept {\n"):
            with self.subTest(head=head):
                closing = "}};\n}\n" if "class B" in head else "}\n"
                first = 3 + head.count("\n") - (2 if head.startswith("template") else 1)
                rest = 68 - head.startswith("template")
                self.assertEqual([], findings(core(head + body * rest + closing)))
                over = core(head + body * (rest + 1) + closing)
                self.finds("function-length", "src/core/rule.cpp", first + 1, over)

    def test_what_is_no_function_has_no_length(self):
        rows = '    {"a", 1},\n' * 100
        for text in (f"const Row rows[] = {{\n{rows}}};\n",
                     "enum class E {\n" + "    a,\n" * 80 + "};\n",
                     'const char* s = R"(\n' + "void f() {\n" * 90 + ')";\n', "// void f() {\n" * 90):
            self.assertEqual([], findings(core(text)))

    def test_sleeping_tests(self):
        for call in ("this_thread::sleep_for(1s);", "usleep(3);", "nanosleep(&t, nullptr);", "sleep(1);"):
            with self.subTest(call=call):
                self.finds("sleep", "tests/unit/t.cpp", 4, unit(f"void f() {{ {call} }}\n"))
        self.assertEqual([], findings(unit("// sleep_for(1s)\n")))
        self.assertEqual([], findings(core("void f() { usleep(3); }\n")))
        script = "# SPDX-License-Identifier: Apache-2.0\ntime.sleep(1)\n"  # the word itself, not a call
        self.finds("sleep", "tests/t.py", 2, {"tests/t.py": script})

    def test_printing_outside_the_command(self):
        for call in ('printf("x");', "std::cout << 1;", 'std::fprintf(stderr, "x");'):
            with self.subTest(call=call):
                self.finds("print", "src/engine/loop.cpp", 3, engine(f"void f() {{ {call} }}\n"))
        self.assertEqual([], findings(engine('void f() { snprintf(b, 1, "printf("); }\n')))

    def test_clocks(self):
        for call in ("std::chrono::system_clock::now();", "clock_gettime(CLOCK_REALTIME, &t);",
                     "std::chrono::steady_clock::now();"):
            with self.subTest(call=call):
                self.finds("clock", "src/engine/loop.cpp", 3, engine(f"void f() {{ {call} }}\n"))

    def test_co_await_dangers(self):
        for expression in ("f({1, 2})", "f([s] { return s; })", "f(a ? b : c)", "f(1,\n    Options{})"):
            with self.subTest(expression=expression):
                change = unit(f"task g() {{\n    co_await {expression};\n}}\n")
                self.finds("co_await", "tests/unit/t.cpp", 5, change)
        fine = unit("task g() {\n    if (co_await f(o)) { h(); }\n    co_return A{};\n}\n")
        self.assertEqual([], findings(fine))

    def test_dead_files(self):
        self.finds("dead-code", "src/core/old.cpp", 1, {"src/core/old.cpp": SPDX})
        self.finds("dead-code", "src/core/old.hpp", 1, {"src/core/old.hpp": SPDX})
        self.assertEqual([], findings({"include/dlock/new.hpp": SPDX}))

    def test_pages(self):
        self.finds("pages", "docs/lost.md", 1, {"docs/lost.md": "Words.\n"})
        self.finds("pages", "docs/index.md", 1, {"docs/index.md": "[a](gone.md)\n"})
        linked = {"docs/index.md": "[a](more/b.md#p) [c](https://e.org)\n", "docs/more/b.md": "Words.\n"}
        self.assertEqual([], findings(linked))

    def test_text(self):
        bare = CLEAN["src/core/rule.hpp"][len(SPDX):]
        self.finds("text", "src/core/rule.hpp", 1, {"src/core/rule.hpp": bare})
        for text in ("int a;\t// x\n", "int a; \n", "int a;", "// " + "x" * 108 + "\n"):
            with self.subTest(text=text):
                self.finds("text", "src/core/rule.cpp", 4, core(text))
        self.assertEqual([], findings(core("// " + "\u00e4" * 107 + "\n")))
        self.assertEqual([], findings(core('auto s = R"(\n' + "x" * 111 + '\n)";\n')))
        script = "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n"
        self.assertEqual([], findings({"tools/x": script + "x" * 120 + "\n"}))
        self.finds("text", "tools/x", 3, {"tools/x": script + "x" * 121 + "\n"})

    def test_machine_paths_and_package_sources(self):
        for word in ("/wor" + "k/main/x", "/ho" + "me/ann/x", "https://pypi" + ".org/simple"):
            with self.subTest(word=word):
                self.finds("private", "README.md", 2, append("README.md", f"See {word}\n"))

    def test_unfinished_work(self):
        self.finds("unfinished", "src/core/rule.cpp", 4, core("// TOD" + "O: more\n"))


class Command(unittest.TestCase):
    def run_on(self, change):
        with tempfile.TemporaryDirectory() as root:
            for path, text in {**CLEAN, **change}.items():
                os.makedirs(os.path.dirname(os.path.join(root, path)) or root, exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
            script = os.path.join(TOOLS, "tidy.py")
            command = [sys.executable, script, root]
            return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)

    def test_exit_status_and_fix(self):
        fine = self.run_on({})
        self.assertEqual((0, "tidy: 14 files, 1 functions, 0 of them over 35 lines, 0 findings\n"),
                         (fine.returncode, fine.stdout))
        bad = self.run_on(unit("void f() { usleep(1); }\n"))
        self.assertEqual(1, bad.returncode)
        self.assertIn("tests/unit/t.cpp:4: [sleep] usleep in a test\n  fix [sleep]: wait for", bad.stdout)


if __name__ == "__main__":
    unittest.main()
