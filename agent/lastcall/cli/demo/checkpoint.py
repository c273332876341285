"""Sharded checkpoints: one file a rank, and a manifest that makes them count, written last."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

KEPT = 2
"""Checkpoints that are kept."""

MANIFEST = "manifest.json"

_CHUNK_BYTES = 256 * 1024
_STATE_BYTES = 8


@dataclass(frozen=True, slots=True)
class Storage:
    """Where checkpoints go; one rank's share takes up ``shard_bytes``.

    Attributes:
        bytes_per_second: the pace of one rank's writes at most, as over a network.
    """

    directory: Path
    shard_bytes: int
    bytes_per_second: float

    def save(self, step: int, state: int, rank: int, barrier: Callable[[], None]) -> Path:
        """Write a checkpoint together with the other ranks; return its path once it is durable.

        Raises:
            OSError: it could not be written.
        """
        place = self.directory / f"step-{step:06}"
        place.mkdir(exist_ok=True)
        self._write(place / _shard(rank), _content(state, self.shard_bytes))
        _sync_directory(place)
        barrier()
        if rank == 0:
            self._write(place / MANIFEST, json.dumps({"step": step}).encode())
            _sync_directory(place)
            _sync_directory(self.directory)
            self._tidy()
        barrier()
        return place

    def newest(self) -> int | None:
        """Return the step of the newest complete checkpoint; ``None`` where there is none."""
        return max((self._step(place) for place in self._complete()), default=None)

    def load(self, step: int, rank: int) -> int:
        """Return the state that a rank saved.

        Raises:
            OSError: it cannot be read.
            ValueError: it is not what was written.
        """
        content = (self.directory / f"step-{step:06}" / _shard(rank)).read_bytes()
        state = int.from_bytes(content[:_STATE_BYTES], "big")
        if content != _content(state, self.shard_bytes):
            raise ValueError(f"the checkpoint of step {step}, rank {rank}, is damaged")
        return state

    def _write(self, path: Path, content: bytes) -> None:
        began = time.monotonic()
        temporary = path.with_suffix(".tmp")
        with temporary.open("wb") as file:
            for start in range(0, len(content), _CHUNK_BYTES):
                file.write(content[start : start + _CHUNK_BYTES])
                due = began + min(start + _CHUNK_BYTES, len(content)) / self.bytes_per_second
                time.sleep(max(0.0, due - time.monotonic()))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)

    def _complete(self) -> list[Path]:
        return [manifest.parent for manifest in self.directory.glob(f"step-*/{MANIFEST}")]

    def _tidy(self) -> None:
        for place in sorted(self._complete(), key=self._step)[:-KEPT]:
            # Without its manifest first, so that half of one never counts.
            (place / MANIFEST).unlink()
            shutil.rmtree(place)

    @staticmethod
    def _step(place: Path) -> int:
        return int(place.name.removeprefix("step-"))


def _shard(rank: int) -> str:
    return f"rank-{rank}"


def _content(state: int, length: int) -> bytes:
    """Return the state, and as many bytes that follow from it as a shard has."""
    head = state.to_bytes(_STATE_BYTES, "big")
    block = hashlib.blake2b(head).digest()
    return (head + block * (length // len(block) + 1))[:length]


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
