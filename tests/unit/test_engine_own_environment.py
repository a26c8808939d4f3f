"""Keys in our own environment: gone from what the kernel shows, kept for the program."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os, subprocess, sys
from ludolf.engine.process_environment import wipe

wipe({"KEPT"}, {"KEPT": "of a session"})
wipe({"SECRET_KEY", "ABSENT_KEY"}, os.environ)
wipe({"SECRET_KEY", "LATER_KEY"}, os.environ)
shown = open("/proc/self/environ", "rb").read().split(b"\\0")
print(sorted(entry.decode() for entry in shown if b"_KEY" in entry or b"KEPT" in entry))
print(os.environ["SECRET_KEY"], os.environ["LATER_KEY"])
sys.stdout.flush()
os.system("echo $SECRET_KEY $LATER_KEY $KEPT")
subprocess.run(["sh", "-c", "echo $SECRET_KEY $LATER_KEY $KEPT"])
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/environ"), reason="needs /proc")
def test_a_wiped_variable_is_seen_by_the_program_and_its_children_only() -> None:
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(sys.path),
        "SECRET_KEY": "one",
        "LATER_KEY": "two",
        "NOT_SECRET_KEY": "three",
        "KEPT": "SECRET_KEY=four",
    }
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, check=True)
    assert done.stdout.decode().splitlines() == [
        "['KEPT=SECRET_KEY=four', 'NOT_SECRET_KEY=three']",
        "one two",
        "one two SECRET_KEY=four",
        "one two SECRET_KEY=four",
    ]
