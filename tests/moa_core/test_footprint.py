"""The process stays small: before torch is there, and only where nobody said otherwise."""

import os
import subprocess
import sys

SAY = """
import ctypes, os, sys
calls = []
class Libc:
    gnu_get_libc_version = None
    def mallopt(self, what, bytes):
        calls.append((what, bytes))
ctypes.CDLL = lambda name: Libc()
from moa_core.footprint import keep_small
keep_small()
print(os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"], sorted(calls), "torch" in sys.modules)
"""


def said(**variables):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    kept.pop("ONEDNN_PRIMITIVE_CACHE_CAPACITY", None)
    command = [sys.executable, "-c", SAY]
    done = subprocess.run(command, env=kept | variables, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_cache_and_allocator_are_bound():
    assert said() == "128 [(-3, 1048576), (-1, 4194304)] False"


def test_what_the_environment_says_goes_before():
    given = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "7", "MALLOC_ARENA_MAX": "2"}
    assert said(**given) == "7 [] False"
