"""One look at one GPU: what is due is read, and what is refused spoils nothing else."""

import math
from collections.abc import Sequence

from lastcall.core.gpu.codes import (
    BROKEN,
    CORRUPTED_INFOROM,
    GONE,
    INVALID_ARGUMENT,
    UNCLEAR,
    UNINITIALIZED,
    UNSUPPORTED,
)
from lastcall.gpu.probe.calls import Calls, Refused
from lastcall.gpu.probe.session import Device
from lastcall.gpu.probe.signals import (
    FIELD_CALL,
    FIELDS,
    PROCESSES,
    READINGS,
    SLOWLY,
    Field,
    Reading,
    field_value,
)

_EARLY_RATIO = 0.9
"""Rounds are not quite regular: what is so near to being due is not left for another round."""

_CADENCES = sorted({signal.every_seconds for signal in (*FIELDS, *READINGS, PROCESSES)})


class Finding:
    """What one look has found so far.

    Attributes:
        values: what was read, by signal.
        codes: the return code of each signal that was refused.
        pids: processes on the GPU; ``None``: not read.
        code: the return code that says that the GPU itself cannot be used, else 0.
        call: the call that answered it.
    """

    def __init__(self, code: int = 0, call: str = "") -> None:
        self.values: dict[str, float] = {}
        self.codes: dict[str, int] = {}
        self.pids: tuple[float, ...] | None = None
        self.code = code
        self.call = call
        self._unclear: Refused | None = None
        self._unclear_signals = 0

    @property
    def gone(self) -> bool:
        """Whether there is no GPU to ask any more."""
        return self.code in GONE

    def read(self, signals: Sequence[str], values: Sequence[float]) -> None:
        """Take in what was read."""
        for signal, value in zip(signals, values, strict=False):
            if math.isfinite(value):
                self.values[signal] = value

    def refused(self, signals: Sequence[str], refused: Refused) -> None:
        """Take in that signals were refused.

        Raises:
            Refused: the session with the driver is over.
        """
        if refused.code == UNINITIALIZED:
            raise refused
        if refused.code == CORRUPTED_INFOROM:
            self.codes["inforom"] = refused.code
        else:
            self.codes.update(dict.fromkeys(signals, refused.code))
        if refused.code in BROKEN:
            self._blame(refused)
        elif refused.code in UNCLEAR:
            self._unclear = self._unclear or refused
            self._unclear_signals += len(signals)

    def conclude(self) -> None:
        """Blame the GPU for unclear answers where it gave more of them than good ones."""
        if self._unclear and self._unclear_signals > len(self.values):
            self._blame(self._unclear)

    def _blame(self, refused: Refused) -> None:
        if not self.code:
            self.code, self.call = refused.code, refused.call


class Observer:
    """Looks at one GPU again and again, and remembers what it does not have.

    Args:
        device: the GPU.
        calls: how the driver is called.
    """

    def __init__(self, device: Device, calls: Calls) -> None:
        self._device = device
        self._calls = calls
        self._read_at: dict[float, float] = {}
        self._unsupported: dict[str, int] = {}
        self._ways: dict[tuple[str, ...], int] = {}

    def look(self, at: float, *, thorough: bool) -> Finding:
        """Look at the GPU.

        Args:
            at: now, in seconds on the monotonic clock.
            thorough: read what is read now and then as well, though it is not yet due.

        Raises:
            Refused: the session with the driver is over.
        """
        device = self._device
        self._calls.about(device.uuid, device.index, device.pci)
        finding = Finding(device.code, device.call)
        if device.handle is not None:
            self._look(finding, at, thorough=thorough)
        finding.values["call_seconds_max"] = round(self._calls.slowest_seconds, 6)
        self._calls.rest()
        return finding

    def _look(self, finding: Finding, at: float, *, thorough: bool) -> None:
        due = self._due(at, thorough=thorough)
        self._read_fields([field for field in FIELDS if field.every_seconds in due], finding)
        for reading in READINGS:
            if reading.every_seconds in due and not finding.gone:
                finding.read(reading.signals, self._read(reading, finding) or ())
        if PROCESSES.every_seconds in due and not finding.gone:
            finding.pids = self._read(PROCESSES, finding)
        finding.conclude()

    def _due(self, at: float, *, thorough: bool) -> set[float]:
        due = set()
        for every in _CADENCES:
            last = self._read_at.get(every)
            soon = thorough and every <= SLOWLY
            if last is None or soon or at - last >= every * _EARLY_RATIO:
                self._read_at[every] = at
                due.add(every)
        return due

    def _read_fields(self, fields: list[Field], finding: Finding) -> None:
        asked = [field for field in fields if not self._known_refusal((field.signal,), finding)]
        if not asked:
            return
        try:
            entries = self._calls(
                FIELD_CALL, self._device.handle, [field.number for field in asked]
            )
        except Refused as refused:
            if refused.code == INVALID_ARGUMENT and len(asked) > 1:
                for field in asked:
                    self._read_fields([field], finding)
            else:
                self._refused([field.signal for field in asked], refused, finding)
            return
        for field, entry in zip(asked, entries, strict=True):
            if entry.nvmlReturn == 0:
                finding.read((field.signal,), (field_value(entry) * field.unit,))
            else:
                self._refused((field.signal,), Refused(FIELD_CALL, entry.nvmlReturn), finding)

    def _read(self, reading: Reading, finding: Finding) -> tuple[float, ...] | None:
        if self._known_refusal(reading.signals, finding):
            return None
        first = self._ways.get(reading.signals, 0)
        for way in range(first, len(reading.ways)):
            self._ways[reading.signals] = way
            try:
                return reading.ways[way](self._calls, self._device.handle)
            except Refused as refused:
                another = way + 1 < len(reading.ways) and refused.code in UNSUPPORTED
                if not another:
                    self._refused(reading.signals, refused, finding)
                    break
        return None

    def _known_refusal(self, signals: Sequence[str], finding: Finding) -> bool:
        known = {name: self._unsupported[name] for name in signals if name in self._unsupported}
        finding.codes.update(known)
        return bool(known)

    def _refused(self, signals: Sequence[str], refused: Refused, finding: Finding) -> None:
        finding.refused(signals, refused)
        if refused.code in UNSUPPORTED:
            self._unsupported.update(dict.fromkeys(signals, refused.code))
