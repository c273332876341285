"""The container image, built on a base made of this machine's own packages, and programs in it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.needs import leave_out, need_namespaces, need_program

ROOT = Path(__file__).resolve().parents[2]
DEBIAN_PYTHON = Path("/usr/bin/python3")
BASE_PACKAGES = ("python3-minimal", "libpython3-stdlib", "dash", "coreutils")
WRITABLE = ("/run/lastcall", "/var/lib/lastcall")

_STORAGE = '[storage]\ndriver = "vfs"\ngraphroot = "{folder}/images"\nrunroot = "{folder}/run"\n'

# What a runtime does with a container that has a read-only root and two volumes.
_ENTER = """
set -e
root=$1 run=$2 state=$3 user=$4 chroot=$5
shift 5
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --bind "$run" "$root/run/lastcall"
mount --bind "$state" "$root/var/lib/lastcall"
exec "$chroot" --userspec="$user" --groups= "$root" "$@"
"""


@dataclass(frozen=True)
class Image:
    """A built image.

    Attributes:
        root: its file system.
        base: the file system that it was built on.
        config: what a runtime is told, as the image specification of the OCI has it.
    """

    root: Path
    base: Path
    config: Mapping[str, Any]

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a program in it."""
        return dict(variable.split("=", 1) for variable in self.config["Env"])

    @property
    def user_id(self) -> int:
        """Who its programs run as."""
        return int(self.config["User"].split(":")[0])

    def command(self, folder: Path, *arguments: str) -> list[str]:
        """Return the command that runs a container of it; give it :attr:`environment`.

        Args:
            folder: its two volumes are made here, ``run`` and ``state``; all else is read-only.
            arguments: what comes after the entry point.
        """
        return self._enter(folder, *self.config["Entrypoint"], *arguments)

    def output(self, folder: Path, *program: str) -> str:
        """Return what a program of it prints, which must end well."""
        return _run(*self._enter(folder, *program), environment=self.environment)

    def _enter(self, folder: Path, *program: str) -> list[str]:
        volumes = (folder / "run", folder / "state")
        for volume in volumes:
            volume.mkdir(exist_ok=True)
            os.chown(volume, self.user_id, self.user_id)
        tools = (need_program(name, "coreutils") for name in ("sh", "chroot"))
        shell, chroot = tools
        return [
            *(need_program("unshare", "util-linux"), "--mount", "--", shell, "-c", _ENTER, "enter"),
            *(str(self.root), *map(str, volumes), self.config["User"], chroot, *program),
        ]


@contextmanager
def built_image(folder: Path) -> Iterator[Image]:
    """Build the image, and take it away when the block ends."""
    need_namespaces()
    buildah = need_program("buildah", "buildah")
    if not DEBIAN_PYTHON.exists():
        leave_out("needs Debian's own Python: apt-get install python3")
    base = folder / "base"
    storage = folder / "storage.conf"
    storage.write_text(_STORAGE.format(folder=folder))
    environment = {
        **os.environ,
        "BUILDER": buildah,
        "BUILDAH_ISOLATION": "chroot",
        "CONTAINERS_STORAGE_CONF": str(storage),
        "PIP": f"{sys.executable} -m pip",
    }

    def run_buildah(*arguments: str) -> str:
        return _run(buildah, *arguments, environment=environment).strip()

    try:
        _unpack_debian(base, folder / "packages")
        scratch = run_buildah("from", "scratch")
        run_buildah("copy", "--quiet", scratch, str(base), "/")
        run_buildah("commit", "--quiet", "--rm", scratch, "localhost/base")
        _run(
            *(str(ROOT / "tools/build-image"), "--tag", "localhost/lastcall"),
            *("--base", "localhost/base", "--wheels-for", str(DEBIAN_PYTHON), "--", "--pull-never"),
            environment=environment,
        )
        container = run_buildah("from", "--pull-never", "localhost/lastcall")
        described = json.loads(run_buildah("inspect", container))
        config = json.loads(described["Config"])["config"]
        yield Image(Path(run_buildah("mount", container)), base, config)
    finally:
        shutil.rmtree(folder)  # pytest keeps its folders, and this one is large


def _unpack_debian(base: Path, packages: Path) -> None:
    """Make a tree that can run Python and a shell; nothing in it has been configured."""
    listed = _run(
        *(need_program("apt-cache", "apt"), "depends", "--important", "--recurse", *BASE_PACKAGES)
    )
    # Perl is named by an alternative that a real installation would not take.
    names = sorted({line for line in listed.splitlines() if line[:1].isalpha() and ":" not in line})
    wanted = [name for name in names if not name.startswith(("perl", "libperl"))]
    packages.mkdir()
    base.mkdir()
    _run(
        *("apt-get", "download", "--quiet", "--option", "APT::Sandbox::User=root", *wanted),
        folder=packages,
    )
    for package in packages.glob("*.deb"):
        _run("dpkg-deb", "--extract", str(package), str(base))
        package.unlink()


def _run(
    *command: str, environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> str:
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env=environment, cwd=folder
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout
