"""A signal as a notice, for jobs whose scheduler speaks by signals alone; only where asked for."""

from __future__ import annotations

import signal
import threading
from types import FrameType

from lastcall.client.ledger import Ledger
from lastcall.client.notice import Notice


class SignalFallback:
    """Turns one signal into a notice without a deadline; the handler does nothing else.

    The handler that was there is called after it, and put back by :meth:`restore`.

    Raises:
        RuntimeError: not called in the main thread, or the signal's handler is none of Python's
            and could be neither called nor put back.
        ValueError: no such signal, or one that cannot be caught.
        OSError: the system refuses a handler for this signal.
    """

    def __init__(self, signum: int, ledger: Ledger) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError(
                "install_signal_fallback must be called in the main thread: Python allows signal "
                "handlers nowhere else"
            )
        self.signum = signal.Signals(signum)
        previous = signal.getsignal(signum)
        if previous is None:
            raise RuntimeError(
                f"{self.signum.name} has a handler that was not installed from Python, "
                "which could not be called or put back"
            )
        self._previous = previous
        self._ledger = ledger
        self._restored = False
        # One object, since each access of a method makes a new one and `restore` goes by identity.
        self._installed = self._handle
        signal.signal(signum, self._installed)

    def restore(self) -> bool:
        """Put the previous handler back, unless somebody has installed another meanwhile.

        Returns:
            False in a thread other than the main one, which may not; the handler then puts itself
            out at the next signal.
        """
        self._restored = True
        if threading.current_thread() is not threading.main_thread():
            return False
        if signal.getsignal(self.signum) is self._installed:
            signal.signal(self.signum, self._previous)
        return True

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        if self._restored:
            self.restore()
            if not callable(self._previous):
                signal.raise_signal(signum)
        elif self._ledger.local is None:
            self._ledger.local = Notice(
                id=f"signal-{self.signum.name}",
                kind="termination",
                source="signal",
                reason=f"this process received {self.signum.name}",
            )
            self._ledger.pending = True
        if callable(self._previous):
            self._previous(signum, frame)
