"""The border to the driver's library: each call stands in the trail, is timed, and fails as ours.

The one module that knows ``pynvml``.
"""

import ctypes
import time
from typing import Any

from lastcall.core.gpu.codes import FUNCTION_NOT_FOUND, LIBRARY_NOT_FOUND, UNKNOWN
from lastcall.gpu import trail
from lastcall.gpu.trail import Step

try:
    import pynvml  # type: ignore[import-untyped]  # the package brings no types
except ImportError:
    pynvml = None

_NO_PACKAGE = "the package nvidia-ml-py is not installed (lastcall's extra gpu)"


class Refused(Exception):  # noqa: N818 - the driver's answer, which need not be an error
    """The driver did not do what it was asked.

    Args:
        call: what it was asked.
        code: its return code, ``nvmlReturn_t``.
        text: what the library says of it.
    """

    def __init__(self, call: str, code: int, text: str = "") -> None:
        super().__init__(call, code, text)
        self.call = call
        self.code = code
        self.text = text


def call(name: str, *arguments: object) -> Any:
    """Call a function of ``pynvml``.

    Raises:
        Refused: it failed; or the driver, or ``pynvml``, is too old to have it.
    """
    if pynvml is None:
        raise Refused(name, LIBRARY_NOT_FOUND, _NO_PACKAGE)
    function = getattr(pynvml, name, None)
    if function is None:
        raise Refused(name, FUNCTION_NOT_FOUND, "Function Not Found")
    try:
        return function(*arguments)
    except pynvml.NVMLError as error:
        raise Refused(name, int(error.value), str(error)) from None
    except TypeError as error:  # a binding too old to take these arguments
        raise Refused(name, FUNCTION_NOT_FOUND, str(error)) from None
    except ValueError as error:  # text that is no UTF-8
        raise Refused(name, UNKNOWN, str(error)) from None


def structure(name: str) -> Any:
    """Make one of the structures that are handed to the driver to be filled in.

    Raises:
        Refused: ``pynvml`` is too old to have it.
    """
    found = getattr(pynvml, name, None)
    if found is None:
        raise Refused(name, FUNCTION_NOT_FOUND, "Function Not Found")
    return found()


def text(value: str | bytes) -> str:
    """Return text that bindings before 12 give as bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def address(handle: Any) -> int:
    """Return what is the same for all handles of one GPU; the handles themselves never are."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


class Calls:
    """Makes calls, and says before each of them in the trail which it is and about which GPU.

    Args:
        trail_fd: the trail's file; ``None``: there is none.

    Attributes:
        slowest_seconds: how long the longest call about this GPU took.
    """

    def __init__(self, trail_fd: int | None) -> None:
        self._trail_fd = trail_fd
        self._uuid, self._index, self._pci = "", -1, ""
        self.slowest_seconds = 0.0

    def about(self, uuid: str = "", index: int = -1, pci: str = "") -> None:
        """Say which GPU the next calls are about."""
        self._uuid, self._index, self._pci = uuid, index, pci
        self.slowest_seconds = 0.0

    def __call__(self, name: str, *arguments: object) -> Any:
        """Call a function of ``pynvml``.

        Raises:
            Refused: as :func:`call` does.
        """
        began = self.enter(name)
        try:
            return call(name, *arguments)
        finally:
            self.slowest_seconds = max(self.slowest_seconds, time.monotonic() - began)

    def enter(self, name: str) -> float:
        """Write into the trail that ``name`` begins, and return when."""
        now = time.monotonic()
        if self._trail_fd is not None:
            trail.write(self._trail_fd, Step(name, self._uuid, self._index, self._pci, now))
        return now

    def rest(self) -> None:
        """Write into the trail that no call is being made."""
        self.about()
        self.enter("")
