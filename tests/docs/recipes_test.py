# SPDX-License-Identifier: Apache-2.0
"""docs/recipes/: the program that the pages are cut from, on the other stores (examples.recipes is on SQLite)."""
import os
import subprocess
import unittest

from support import Case, Redis


class Recipes(Case):
    def check(self, url):
        done = subprocess.run([os.environ["DLOCK_RECIPES"], url], env=self.env, capture_output=True,
                              text=True, timeout=60)
        self.assertExit(0, done)

    def test_memory(self):
        self.check("memory:recipes")

    def test_redis(self):
        self.check(Redis(self).url)


if __name__ == "__main__":
    unittest.main()
