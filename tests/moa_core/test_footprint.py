"""The process stays small: before torch is there, and only where nobody said otherwise."""

import os
import subprocess
import sys

SAY = """
import ctypes, os, sys, threading
calls, given_back = [], threading.Event()
class Libc:
    gnu_get_libc_version = None
    def mallopt(self, what, bytes):
        calls.append((what, bytes))
    def malloc_trim(self, left):
        given_back.set()
ctypes.CDLL = lambda name: Libc()
from moa_core import footprint
footprint.EVERY = 0.01
footprint.keep_small()
print(os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"], sorted(calls), "torch" in sys.modules,
      given_back.wait(30 if calls else 0.1))
"""


def said(**variables):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    kept.pop("ONEDNN_PRIMITIVE_CACHE_CAPACITY", None)
    command = [sys.executable, "-c", SAY]
    done = subprocess.run(command, env=kept | variables, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_cache_and_allocator_are_bound_and_what_is_free_is_given_back():
    assert said() == "128 [(-3, 1048576), (-1, 4194304)] False True"


def test_what_the_environment_says_goes_before():
    given = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "7", "MALLOC_ARENA_MAX": "2"}
    assert said(**given) == "7 [] False False"
