"""The probe's process: begins the session with the driver, and ends when its parent does."""

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable

from lastcall.gpu.probe import settings as probe_settings
from lastcall.gpu.probe.calls import Calls, Refused
from lastcall.gpu.probe.lines import Lines
from lastcall.gpu.probe.node import NodeObserver
from lastcall.gpu.probe.rounds import Rounds
from lastcall.gpu.probe.session import Session
from lastcall.gpu.probe.settings import Settings
from lastcall.gpu.probe.waiter import Waiter

EXIT_USAGE = 2
EXIT_FAILED = 3

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> int:
    """Run the probe; its only argument holds the settings.

    Returns:
        Its exit code: 0 done, 2 the settings are wrong, 3 the driver cannot be used.
    """
    try:
        settings = probe_settings.read(arguments[0]) if arguments else Settings()
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_USAGE
    threading.excepthook = _end_with_thread
    _end_with_parent()
    lines = Lines()
    try:
        _probe(settings, lines)
    except Refused as refused:
        lines.write("failed", {"call": refused.call, "code": refused.code, "text": refused.text})
        return EXIT_FAILED
    return 0


def _probe(settings: Settings, lines: Lines) -> None:
    woken = threading.Event()
    if not settings.once:
        _start(lambda: _obey(woken))
    calls = Calls(settings.trail_fd)
    session = Session(calls, settings.skip)
    versions = session.begin()
    lines.write("hello", {"pid": os.getpid(), **versions._asdict()})
    session.meet()
    node = NodeObserver(
        calls, versions.driver, sysfs=settings.sysfs, proc=settings.proc, dev=settings.dev
    )
    rounds = Rounds(session, calls, node, lines)
    if settings.once:
        rounds.go(thorough=True)
    else:
        waiter = Waiter(lines, lambda: session.devices, woken.set, rounds.hush)
        _start(waiter.run)
        rounds.run(settings.poll_seconds, woken, waiter.check)


def _obey(woken: threading.Event) -> None:
    with open(0, "rb", buffering=0, closefd=False) as commands:
        for command in commands:
            if command.strip() == b"look":
                woken.set()
    os._exit(0)


def _start(work: Callable[[], None]) -> None:
    threading.Thread(target=work, daemon=True).start()


def _end_with_thread(failure: threading.ExceptHookArgs) -> None:
    threading.__excepthook__(failure)
    os._exit(1)


def _end_with_parent() -> None:
    # A handler of Python's, as it has one for SIGINT, waits for the call that never comes back.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
