"""Compiles the fake driver's library, and links it once for each set of functions it is to lack."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import subprocess
from pathlib import Path

from support.needs import leave_out, need_program
from support.nvml import layout

SONAME = "libnvidia-ml.so.1"
_SOURCE = Path(__file__).parent / "source"
_FLAGS = ("-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-fPIC", "-pthread")


def build_library(cache: Path, without: tuple[str, ...] = ()) -> Path:
    """Return the library, made now unless the cache has it; leave the test out without gcc.

    Args:
        cache: a folder; several processes may use it at once.
        without: functions that it lacks, as an old driver's library does.
    """
    compiler = need_program("gcc", "gcc libc6-dev")
    include = _nvml_include()
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        objects = _compile(compiler, include, cache)
        return _link(compiler, objects, cache, _exports(without))


def _nvml_include() -> Path:
    package = importlib.util.find_spec("nvidia")
    places = package.submodule_search_locations or () if package else ()
    headers = [header for place in places for header in Path(place).glob("*/include/nvml.h")]
    if not headers:
        leave_out("needs the header of NVML: pip install nvidia-nvml-dev")
    return headers[0].parent


def _exports(without: tuple[str, ...]) -> str:
    unknown = set(without) - set(layout.CALLS)
    if unknown:
        raise KeyError(f"no such functions: {', '.join(sorted(unknown))}")
    names = [*(name for name in layout.CALLS if name not in without), "fake_sizeof"]
    return "{ global: " + " ".join(f"{name};" for name in names) + " local: *; };\n"


def _compile(compiler: str, include: Path, cache: Path) -> list[Path]:
    header = layout.header()
    texts = (header, *(path.read_text() for path in sorted(_SOURCE.iterdir())))
    folder = cache / f"objects-{_fingerprint(*texts)}"
    sources = sorted(_SOURCE.glob("*.c"))
    objects = [folder / f"{source.stem}.o" for source in sources]
    done = folder / "done"
    if not done.exists():
        folder.mkdir(exist_ok=True)
        (folder / "layout.h").write_text(header)
        paths = (f"-I{folder}", f"-isystem{include}")
        subprocess.run([compiler, *_FLAGS, *paths, "-c", *sources], cwd=folder, check=True)
        done.touch()
    return objects


def _link(compiler: str, objects: list[Path], cache: Path, exports: str) -> Path:
    folder = cache / f"library-{_fingerprint(exports, *map(str, objects))}"
    library = folder / SONAME
    if not library.exists():
        folder.mkdir(exist_ok=True)
        script = folder / "exports.map"
        script.write_text(exports)
        unfinished = folder / "unfinished.so"
        options = ("-shared", "-pthread", f"-Wl,-soname,{SONAME}", f"-Wl,--version-script={script}")
        subprocess.run([compiler, *options, "-o", unfinished, *objects], check=True)
        unfinished.rename(library)
    return library


def _fingerprint(*texts: str) -> str:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()[:16]
