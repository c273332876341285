"""Credentials from a program, as kubeconfig's ``exec`` names one.

The protocol is the one of the Kubernetes docs, "Authenticating", client-go credential plugins.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from lastcall.drain import programs
from lastcall.drain.kubernetes.credentials import Credential, CredentialError
from lastcall.drain.kubernetes.files import why

EXEC_TIMEOUT_SECONDS = 10.0
"""A plugin that takes longer is stopped."""

RENEW_AHEAD_SECONDS = 120.0
"""A credential is renewed in the background when it has less than this left."""

_OUTPUT_LIMIT_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ExecCommand:
    """The program, as kubeconfig names it.

    Attributes:
        argv: the program and its arguments; no shell.
        environment: in addition to the agent's own.
        api_version: such as ``client.authentication.k8s.io/v1``.
        cluster: what it is told about the cluster, where it asks for that.
    """

    argv: tuple[str, ...]
    api_version: str
    environment: Mapping[str, str] = field(default_factory=dict)
    cluster: Mapping[str, object] | None = None


class _Status(msgspec.Struct):
    token: str = ""
    clientCertificateData: str = ""  # noqa: N815 - the protocol's own name
    clientKeyData: str = ""  # noqa: N815 - the protocol's own name
    expirationTimestamp: datetime | None = None  # noqa: N815 - the protocol's own name


class _ExecCredential(msgspec.Struct):
    apiVersion: str = ""  # noqa: N815 - the protocol's own name
    kind: str = ""
    status: _Status = msgspec.field(default_factory=_Status)


class ExecPlugin:
    """Runs the program when a credential is needed, and keeps what it gave until it expires.

    Args:
        command: what to run.
        wall: the wall clock, Unix seconds; expiry is stated in it.
        timeout_seconds: for one run.
    """

    def __init__(
        self,
        command: ExecCommand,
        wall: Callable[[], float],
        timeout_seconds: float = EXEC_TIMEOUT_SECONDS,
    ) -> None:
        self._command = command
        self._wall = wall
        self._timeout_seconds = timeout_seconds
        self._credential: Credential | None = None
        self._expires_unix: float | None = None
        self._run: asyncio.Task[Credential] | None = None

    async def current(self) -> Credential:
        """Return the credential, running the program where there is none that still holds.

        Raises:
            CredentialError: the program gave none.
        """
        left_seconds = self._left_seconds()
        if self._credential is None or left_seconds <= 0:
            return await self._renewed()
        if left_seconds < RENEW_AHEAD_SECONDS:
            self._start()
        return self._credential

    async def renew(self, refused: Credential) -> Credential:
        """Run the program again, unless another call has done so since.

        Raises:
            CredentialError: the program gave none.
        """
        if self._credential is not None and self._credential != refused:
            return self._credential
        return await self._renewed()

    async def close(self) -> None:
        """Stop a program that still runs."""
        run, self._run = self._run, None
        if run is not None:
            run.cancel()
            with suppress(asyncio.CancelledError, CredentialError):
                await run

    def _left_seconds(self) -> float:
        if self._expires_unix is None:
            return float("inf")
        return self._expires_unix - self._wall()

    async def _renewed(self) -> Credential:
        # Shielded: others wait for the same run when one of them gives up.
        return await asyncio.shield(self._start())

    def _start(self) -> asyncio.Task[Credential]:
        if self._run is None or self._run.done():
            self._run = asyncio.create_task(self._ask(), name="kube-exec-plugin")
            self._run.add_done_callback(_retrieve)
        return self._run

    async def _ask(self) -> Credential:
        status = self._read(await _run(self._command, self._timeout_seconds))
        certificate = ""
        if status.clientCertificateData:
            certificate = f"{status.clientCertificateData}\n{status.clientKeyData}"
        expires = status.expirationTimestamp
        self._credential = Credential(status.token, certificate.encode())
        self._expires_unix = None if expires is None else expires.timestamp()
        return self._credential

    def _read(self, output: bytes) -> _Status:
        name = self._command.argv[0]
        try:
            answer = msgspec.json.decode(output, type=_ExecCredential)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise CredentialError(f"the exec plugin {name} printed no ExecCredential") from None
        if answer.kind != "ExecCredential" or answer.apiVersion != self._command.api_version:
            raise CredentialError(
                f"the exec plugin {name} answered {answer.kind or 'nothing'} of "
                f"{answer.apiVersion or 'no version'}, not ExecCredential of "
                f"{self._command.api_version}"
            )
        status = answer.status
        if bool(status.clientCertificateData) != bool(status.clientKeyData):
            raise CredentialError(f"the exec plugin {name} gave a certificate or a key alone")
        if not status.token and not status.clientCertificateData:
            raise CredentialError(f"the exec plugin {name} gave no credential")
        return status


def _retrieve(task: asyncio.Task[Credential]) -> None:
    """Take note of how a background run ended: whoever needs the credential runs it again."""
    if not task.cancelled():
        task.exception()


async def _run(command: ExecCommand, timeout_seconds: float) -> bytes:
    name = command.argv[0]
    info = {
        "apiVersion": command.api_version,
        "kind": "ExecCredential",
        "spec": {"interactive": False}
        | ({} if command.cluster is None else {"cluster": command.cluster}),
    }
    try:
        process = await programs.start(
            *command.argv,
            environment={
                **os.environ,
                **command.environment,
                "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode(),
            },
        )
    except OSError as error:
        raise CredentialError(f"cannot run the exec plugin {name}: {why(error)}") from None
    try:
        async with asyncio.timeout(timeout_seconds):
            output, complaint = await process.communicate()
    except TimeoutError:
        raise CredentialError(
            f"the exec plugin {name} took longer than {timeout_seconds:g} s"
        ) from None
    finally:
        await programs.end(process)
    if process.returncode != 0:
        line = complaint[:400].decode("utf-8", "replace").strip().splitlines()
        detail = f": {line[0]}" if line else ""
        raise CredentialError(f"the exec plugin {name} ended with {process.returncode}{detail}")
    if len(output) > _OUTPUT_LIMIT_BYTES:
        raise CredentialError(f"the exec plugin {name} printed too much")
    return output
