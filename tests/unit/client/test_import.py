"""What `import lastcall` brings in and starts, in an interpreter that has nothing else."""

import os
import subprocess
import sys
from pathlib import Path

import lastcall

SOURCES = str(Path(lastcall.__file__).parents[1])

ONLY_STANDARD_LIBRARY = """
import sys, threading

class Foreign:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top != "lastcall" and top not in sys.stdlib_module_names:
            raise ModuleNotFoundError(f"{name} is not of the standard library")

sys.meta_path.insert(0, Foreign())
before = set(sys.modules)
import lastcall
print(sorted(set(sys.modules) - before))
for name in lastcall.__all__:
    getattr(lastcall, name)
print("asyncio" in sys.modules, threading.active_count())
"""


def run(script: str) -> list[str]:
    result = subprocess.run(
        [sys.executable, "-S", "-W", "error", "-c", script],
        env={**os.environ, "PYTHONPATH": SOURCES},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout.splitlines()


def test_the_training_side_needs_the_standard_library_alone_and_starts_nothing():
    loaded, started = run(ONLY_STANDARD_LIBRARY)

    assert loaded == "['lastcall', 'lastcall._version']"
    assert started == "False 1"


def test_the_package_shows_what_it_offers():
    assert {"connect", "Guard", "Notice", "Flush", "EXIT_PREEMPTED"} <= set(dir(lastcall))
    assert lastcall.EXIT_PREEMPTED == 143
    assert not hasattr(lastcall, "no_such_thing")
