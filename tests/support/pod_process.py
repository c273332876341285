"""A process in the control group of a pod, speaking to the agent by hand."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from support.needs import leave_out, need_program, need_root
from support.running_agent import LineClient

_ROOT = Path("/sys/fs/cgroup")
_ENTER = 'echo $$ > "$1/cgroup.procs" && shift && exec "$@"'


@contextlib.asynccontextmanager
async def process_of_pod(
    pod_uid: str, socket_path: Path, **hello: object
) -> AsyncIterator[LineClient]:
    """Run a process in a pod's control group, as a container runtime would, and say hello.

    It takes root, and a control group file system that may be written to.
    """
    need_root()
    socat = need_program("socat", "socat")
    with _control_group(pod_uid) as group:
        process = await asyncio.create_subprocess_exec(
            *("sh", "-c", _ENTER, "sh", str(group)),
            *(socat, "STDIO", f"UNIX-CONNECT:{socket_path}"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=128 * 1024,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        client = LineClient(process.stdout, process.stdin)
        client.send(type="hello", protocol=[1, 1], **hello)
        try:
            yield client
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.communicate()


@contextlib.contextmanager
def _control_group(pod_uid: str) -> Iterator[Path]:
    name = f"lastcall-test-{uuid.uuid4().hex[:8]}"
    # The names are those of the systemd driver with containerd, as the kubelet makes them.
    slices = (
        "kubepods.slice",
        "kubepods-burstable.slice",
        f"kubepods-burstable-pod{pod_uid.replace('-', '_')}.slice",
        f"cri-containerd-{name}.scope",
    )
    top = _hierarchy() / name
    group = top.joinpath(*slices)
    try:
        group.mkdir(parents=True)
        if not (group / "cgroup.procs").exists():
            leave_out("needs a control group file system")
    except OSError as error:
        leave_out(f"needs the right to make control groups: {error}")
    try:
        yield group
    finally:
        for folder in (group, *group.parents):
            if folder == top.parent:
                break
            folder.rmdir()


def _hierarchy() -> Path:
    """Return where control groups are made: version 2's, or one of version 1's."""
    candidates = (_ROOT, _ROOT / "unified", _ROOT / "pids", _ROOT / "freezer")
    found = next((path for path in candidates if (path / "cgroup.procs").exists()), None)
    if found is None:
        leave_out("needs a control group file system")
    return found
