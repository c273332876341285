"""``lastcall gpu``: lets go of the GPUs, so that one can be reset, and watches them again."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

from lastcall.cli.gpu_words import standing, trouble
from lastcall.cli.link import AgentLink, NoAnswerError, RefusedError, add_socket_option
from lastcall.cli.terminal import Style, duration, safe
from lastcall.wire.messages import GpuRequest, StatusRequest

WAIT_SECONDS = 10.0
"""How long the command waits for what it asked."""

POLL_SECONDS = 0.2
"""Time between two questions whether that has come about."""

_UNWATCHED = ("off", "no_gpu")
"""States in which the agent has nothing to let go of."""

View = dict[str, Any]


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "gpu",
        help="let go of the GPUs for a reset, and watch them again",
        description="A GPU can be reset only while no process has it open, the agent's own among "
        "them.",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    release = actions.add_parser(
        "release",
        help="let go of the GPUs for ten minutes",
        description="Have the running agent let go of the GPUs, and wait until it has. It watches "
        "them again after ten minutes, or when it is told to: lastcall gpu watch.",
    )
    add_socket_option(release)
    release.set_defaults(run=run_release)
    watch = actions.add_parser(
        "watch",
        help="watch the GPUs again: they were reset",
        description="Have the running agent watch the GPUs again, and forget what was held against "
        "them before their reset.",
    )
    add_socket_option(watch)
    watch.set_defaults(run=run_watch)


def run_release(arguments: argparse.Namespace) -> int:
    """Have the GPUs let go; exit with status 1 where something keeps them."""
    return _with_agent(arguments, _release)


def run_watch(arguments: argparse.Namespace) -> int:
    """Have the GPUs watched again; exit with status 1 where they are not."""
    return _with_agent(arguments, _watch)


def _with_agent(arguments: argparse.Namespace, action: Callable[[AgentLink], int]) -> int:
    try:
        with AgentLink(arguments.socket) as link:
            return action(link)
    except (NoAnswerError, RefusedError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _release(link: AgentLink) -> int:
    state = _state(_gpu(link))
    if state in _UNWATCHED:
        print(f"the agent does not have the GPUs open: {_words(state)}")
        return 0
    link.ask(GpuRequest(watched=False))
    gpu = _wait(link, lambda gpu: _state(gpu) == "released" and gpu["watch"]["pid"] is None)
    watch = gpu["watch"]
    if watch["pid"] is not None:
        print(
            f"error: the driver is still held open: {standing(watch, gpu['gpus'])}; the GPUs "
            "cannot be reset: reboot the node",
            file=sys.stderr,
        )
        return 1
    if watch["state"] != "released":
        print(
            f"error: the GPUs were not let go within {WAIT_SECONDS:g} s: "
            f"{_words(watch['state'])}; see lastcall status",
            file=sys.stderr,
        )
        return 1
    until_unix = gpu["released_until_unix"]
    left = "" if until_unix is None else f" for {duration(max(0.0, until_unix - time.time()))}"
    print(
        f"the GPUs are let go{left}; reset them (nvidia-smi --gpu-reset --id=UUID), then say: "
        "lastcall gpu watch"
    )
    return 0


def _watch(link: AgentLink) -> int:
    before = _gpu(link)
    link.ask(GpuRequest(watched=True))
    gpu = _wait(link, lambda gpu: _is_settled(gpu, before))
    state = _state(gpu)
    style = Style(sys.stdout)
    if state in {"watching", "starting"}:
        seen = f", {len(gpu['gpus'])} are known" if state == "watching" else ", it is starting"
        print(style.good("the GPUs are watched again") + seen)
        return 0
    watch = gpu["watch"]
    details = [standing(watch, gpu["gpus"])] if watch else []
    remedy = trouble(watch)
    print(
        f"error: the GPUs are not watched: {': '.join([_words(state), *filter(None, details)])}"
        + (f" -> {remedy}" if remedy else ""),
        file=sys.stderr,
    )
    return 1


def _is_settled(gpu: View, before: View) -> bool:
    """Whether the watch has begun, or it is known anew that it cannot."""
    state = _state(gpu)
    if state in {"watching", *_UNWATCHED}:
        return True
    return state not in {"released", "starting"} and gpu["watch"] != before["watch"]


def _wait(link: AgentLink, is_done: Callable[[View], bool]) -> View:
    """Return what the agent says of the GPUs once it is as wanted, or when waiting is over."""
    until = time.monotonic() + WAIT_SECONDS
    while True:
        gpu = _gpu(link)
        if is_done(gpu) or time.monotonic() > until:
            return gpu
        time.sleep(POLL_SECONDS)


def _gpu(link: AgentLink) -> View:
    try:
        gpu = link.ask(StatusRequest()).get("gpu")
    except RefusedError as error:
        # Who asked for no status would not understand that it was refused.
        raise RefusedError(str(error).replace("status is for", "gpu is for")) from None
    if not isinstance(gpu, dict):
        raise NoAnswerError(
            "the agent is of another version than this command, and shows no GPUs: restart it"
        )
    return gpu


def _state(gpu: View) -> str:
    return "off" if gpu["watch"] is None else str(gpu["watch"]["state"])


def _words(state: str) -> str:
    return {"off": "it does not watch any", "no_gpu": "there are none"}.get(
        state, safe(state.replace("_", " "))
    )
