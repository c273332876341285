"""The fake driver as a test holds it: it says how the GPUs are, while others look at them."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from support.nvml.build import build_library
from support.nvml.layout import (
    FIELD_DEFAULTS,
    MAX_GPUS,
    PIDS,
    STATE,
    Event,
    FieldCell,
    GpuState,
    Kind,
    Rule,
    Rules,
    State,
)
from support.nvml.signals import PLACES, Place

XID_EVENT = 0x8
LOST = 15
RESET_REQUIRED = 16
NOT_SUPPORTED = 3

_FOREVER = -1
_NO_INSTANCE = 0xFFFFFFFF
_FIRST_BUS = 0x1B


class FakeDriver:
    """A driver with some GPUs, all healthy and idle at first; what is said of it holds at once.

    GPUs are named by their place from 0. What it serves lies in files, so that processes come and
    go while it stays, and several may use it at a time.
    """

    def __init__(
        self,
        folder: Path,
        library: Path,
        *,
        gpus: int = 2,
        driver_version: str = "550.54.15",
        without: tuple[str, ...] = (),
    ) -> None:
        """Write the state's files.

        Args:
            folder: where; made if it is not there.
            library: what the fixture ``nvml_library`` or :func:`build_library` returned.
            gpus: how many there are.
            driver_version: of the library and the kernel module.
            without: functions that the library lacks, as an old driver's does.
        """
        self.folder = folder
        self.library = build_library(library.parent.parent, without) if without else library
        folder.mkdir(parents=True, exist_ok=True)
        self._events = folder / "events"
        self._events.write_bytes(b"")
        self._state = _map_state(folder / "state")
        for place in range(MAX_GPUS):
            self._make_gpu(place)
        self.count(gpus)
        self.driver(driver_version, loaded=True)

    @property
    def environment(self) -> dict[str, str]:
        """Return what makes a process that is started with it load this driver."""
        return {"LD_LIBRARY_PATH": str(self.library.parent), "FAKE_NVML": str(self.folder)}

    @staticmethod
    def uuid(gpu: int) -> str:
        """Return the GPU's UUID."""
        return f"GPU-{gpu:08x}-0000-0000-0000-000000000000"

    @staticmethod
    def pci(gpu: int) -> str:
        """Return the GPU's PCI address, as the driver writes it."""
        return f"00000000:{_FIRST_BUS + gpu:02X}:00.0"

    def set(self, gpu: int, signal: str, value: float) -> None:
        """Let a signal have a value, in the signal's own unit, and be supported.

        ``nvlink_active`` is how many links are up, from link 0 on. Beside the probe's signals all
        names of ``layout.STATE`` can be set.
        """
        if signal == "nvlink_active":
            signal, value = "nvlink_active_mask", (1 << int(value)) - 1
        place = PLACES.get(signal, Place(signal))
        number = round(value * place.factor)
        if isinstance(place.where, int):
            self.field(gpu, place.where, number)
        elif place.where in STATE:
            setattr(self._gpu(gpu).values, place.where, number)
        else:
            raise KeyError(f"no such signal: {signal}")

    def field(
        self,
        gpu: int,
        field: int,
        value: float,
        *,
        kind: Kind | None = None,
        link: int = 0,
    ) -> None:
        """Let a field have a value, in the driver's own unit, and be supported.

        Args:
            gpu: which.
            field: its number.
            value: its value.
            kind: the type that the driver says it has; the usual one where none is given.
            link: the NVLink that has all of it, for fields that are asked for link by link.
        """
        cell = self._field(gpu, field)
        cell.kind = kind if kind is not None else cell.kind if cell.known else Kind.SIGNED_LONG_LONG
        cell.value = _bits(value) if cell.kind == Kind.DOUBLE else int(value)
        cell.known, cell.code, cell.link = 1, 0, link

    def link(self, gpu: int, link: int, *, active: bool) -> None:
        """Let one NVLink be up or down."""
        values = self._gpu(gpu).values
        mask = values.nvlink_active_mask & ~(1 << link)
        values.nvlink_active_mask = mask | int(active) << link

    def processes(self, gpu: int, pids: Sequence[int]) -> None:
        """Let these processes, and no others, compute on the GPU."""
        if len(pids) > PIDS:
            raise ValueError(f"a GPU has room for {PIDS} processes")
        state = self._gpu(gpu)
        state.pids[: len(pids)] = list(pids)
        state.pid_count = len(pids)

    def fail(
        self, what: str | int, code: int, gpu: int | None = None, times: int | None = None
    ) -> None:
        """Let a function, or a field, answer with an error.

        Args:
            what: the function's name in C, with its version, or the field's number.
            code: the error.
            gpu: for this GPU alone; for all where none is given.
            times: only this often, for a function; until :meth:`clear` where none is given.
        """
        if isinstance(what, int):
            for place in range(MAX_GPUS) if gpu is None else (gpu,):
                self._field(place, what).code = code
            return
        rule = self._rule(what, gpu)
        rule.times = _FOREVER if times is None else times
        rule.code = code
        self._wake()

    def unsupport(self, gpu: int | None, what: str | int) -> None:
        """Let a GPU, or all, not support a function, a field, or the field behind a signal."""
        place = PLACES.get(what) if isinstance(what, str) else None
        self.fail(place.where if place else what, NOT_SUPPORTED, gpu)

    def clear(self, what: str | int) -> None:
        """Let a function work again in every way and for all GPUs, or a field be supported."""
        if isinstance(what, int):
            self.fail(what, 0)
            return
        for rule in self._rules(what):
            rule.code = rule.times = rule.hang = rule.crash = rule.delay_microseconds = 0

    def delay(self, call: str, seconds: float, gpu: int | None = None) -> None:
        """Let a function take this long."""
        self._rule(call, gpu).delay_microseconds = round(seconds * 1e6)

    def hang(self, call: str, gpu: int | None = None, *, stubborn: bool = False) -> None:
        """Let a function not return.

        Args:
            call: its name.
            gpu: for this GPU alone; for all where none is given.
            stubborn: let the process that hangs ignore SIGTERM from then on, as one does that
                sleeps uninterruptibly in the kernel. Only SIGKILL ends it.
        """
        self._rule(call, gpu).hang = 2 if stubborn else 1
        self._wake()

    def release_hang(self) -> None:
        """Let all functions return that hang."""
        for rules in self._all_rules():
            for call in _names(rules):
                getattr(rules, call).hang = 0

    def crash(self, call: str, gpu: int | None = None) -> None:
        """Let a function end its process by SIGSEGV, until :meth:`clear`."""
        self._rule(call, gpu).crash = 1
        self._wake()

    def xid(self, gpu: int, number: int, count: int = 1) -> None:
        """Let an XID error happen on a GPU, as often as said."""
        self.event(gpu, XID_EVENT, number, count)

    def event(
        self, gpu: int, kind: int, data: int = 0, count: int = 1, instance: int = _NO_INSTANCE
    ) -> None:
        """Let an event happen, as often as said.

        Args:
            gpu: on which GPU.
            kind: its bit in ``nvmlEventType``.
            data: what it carries: an XID's number.
            count: how often.
            instance: the GPU instance (MIG) that it is of.
        """
        record = bytes(Event(gpu=gpu, type=kind, data=data, instance=instance))
        with self._events.open("ab", buffering=0) as file:
            file.write(record * count)

    def lose(self, gpu: int, *, xid: int | None = None) -> None:
        """Let a GPU be lost: every call for it answers 15, after the event of the XID if any."""
        if xid is not None:
            self.xid(gpu, xid)
        self._gpu(gpu).code = LOST
        self._wake()

    def require_reset(self, gpu: int) -> None:
        """Let a GPU need a reset: every call for it answers 16."""
        self._gpu(gpu).code = RESET_REQUIRED
        self._wake()

    def restore(self, gpu: int) -> None:
        """Let a GPU answer again that was lost, needed a reset, or was gone."""
        self._gpu(gpu).code = 0
        self._gpu(gpu).present = 1

    def count(self, gpus: int) -> None:
        """Let there be this many GPUs, from place 0 on."""
        if not 0 <= gpus <= MAX_GPUS:
            raise ValueError(f"the fake driver has room for {MAX_GPUS} GPUs")
        for place in range(MAX_GPUS):
            self._gpu(place).present = int(place < gpus)

    def remove(self, gpu: int) -> None:
        """Let a GPU be gone, as after a start without it: the indexes of those behind it move."""
        self._gpu(gpu).present = 0

    def driver(self, version: str, *, loaded: bool = False) -> None:
        """Let another version of the driver be installed.

        Processes that use the old library go on. New ones load the new library and are refused
        (18), for the kernel runs the old module, unless that was ``loaded`` anew as well.
        """
        self._state.library_version = version.encode()
        self._state.nvml_version = f"12.{version}".encode()
        if loaded:
            self._state.kernel_version = version.encode()

    def break_init(self, code: int) -> None:
        """Let the driver refuse to be initialised with this error; 0 lets it work again."""
        self._state.init_code = code

    def calls(self, call: str, gpu: int | None = None) -> int:
        """Return how often a function was called by anyone, for one GPU or at all."""
        return self._rule(call, gpu).calls

    def calls_in_all(self) -> int:
        """Return how often any function was called by anyone."""
        return sum(getattr(self._state.rules, call).calls for call in _names(self._state.rules))

    def _make_gpu(self, place: int) -> None:
        gpu = self._gpu(place)
        gpu.uuid = self.uuid(place).encode()
        gpu.name = b"NVIDIA H100 80GB HBM3"
        gpu.bus = _FIRST_BUS + place
        for name, value in STATE.items():
            setattr(gpu.values, name, value)
        for number, default in FIELD_DEFAULTS.items():
            cell = gpu.fields[number]
            cell.known, cell.kind, cell.value = 1, default.kind, default.value
            cell.per_link = int(default.per_link)
            cell.code = 0 if default.supported else NOT_SUPPORTED

    def _gpu(self, place: int) -> GpuState:
        if not 0 <= place < MAX_GPUS:
            raise IndexError(f"no such GPU: {place}")
        return self._state.gpus[place]

    def _field(self, gpu: int, number: int) -> FieldCell:
        return self._gpu(gpu).fields[number]

    def _rule(self, call: str, gpu: int | None) -> Rule:
        rules = self._state.rules if gpu is None else self._gpu(gpu).rules
        return _rule_of(rules, call)

    def _rules(self, call: str) -> Iterator[Rule]:
        return (_rule_of(rules, call) for rules in self._all_rules())

    def _all_rules(self) -> Iterable[Rules]:
        return (self._state.rules, *(gpu.rules for gpu in self._state.gpus))

    def _wake(self) -> None:
        """Let those who wait for events see what changed."""
        self.event(0, 0)


def _map_state(path: Path) -> State:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.ftruncate(descriptor, ctypes.sizeof(State))
        return State.from_buffer(mmap.mmap(descriptor, ctypes.sizeof(State)))
    finally:
        os.close(descriptor)


def _names(rules: Rules) -> Iterator[str]:
    return (name for name, *_ in rules._fields_)


def _rule_of(rules: Rules, call: str) -> Rule:
    rule = getattr(rules, call, None)
    if not isinstance(rule, Rule):
        raise KeyError(f"the fake driver has no function {call}")
    return rule


def _bits(value: float) -> int:
    bits: int = struct.unpack("q", struct.pack("d", value))[0]
    return bits
