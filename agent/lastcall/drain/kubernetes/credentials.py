"""Who the agent is to the API server: nobody, a fixed token, or a token that rotates in a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from lastcall.drain.kubernetes.files import file_mark, why

TOKEN_REREAD_SECONDS = 60.0
"""A token file is read again after this long even if it looks unchanged, as client-go does."""


class CredentialError(Exception):
    """There is no credential to present; one line says why, without any secret."""


@dataclass(frozen=True, slots=True)
class Credential:
    """What is presented to the server.

    Attributes:
        token: the bearer token; empty for none.
        certificate: a client certificate and its key, PEM, from an exec plugin; empty for none.
    """

    token: str = field(default="", repr=False)
    certificate: bytes = field(default=b"", repr=False)


class Credentials(Protocol):
    """Where the credential of each call comes from."""

    async def current(self) -> Credential:
        """Return the one to use now.

        Raises:
            CredentialError: there is none.
        """
        ...

    async def renew(self, refused: Credential) -> Credential:
        """Return the one to use after the server has refused one; the same if there is no other.

        Raises:
            CredentialError: there is none.
        """
        ...

    async def close(self) -> None:
        """Stop what is going on in the background."""
        ...


class FixedCredential:
    """A credential that does not change; an empty one leaves it to the client certificate."""

    def __init__(self, credential: Credential | None = None) -> None:
        self._credential = credential or Credential()

    async def current(self) -> Credential:
        """Return it."""
        return self._credential

    async def renew(self, refused: Credential) -> Credential:
        """Return it: there is no other."""
        del refused
        return self._credential

    async def close(self) -> None:
        """Nothing goes on in the background."""


class TokenFile:
    """The token in a file that the kubelet rotates (Kubernetes docs, projected volumes).

    Read again when the file changes, after ``TOKEN_REREAD_SECONDS``, and when the server refuses
    what it held. While the file cannot be read, the last token it held is used.

    The file is read on the loop: it is small and lies in memory.

    Args:
        path: the file.
        monotonic: the monotonic clock, seconds.
    """

    def __init__(self, path: Path, monotonic: Callable[[], float]) -> None:
        self._path = path
        self._monotonic = monotonic
        self._credential: Credential | None = None
        self._mark: object = None
        self._read_at = float("-inf")

    async def current(self) -> Credential:
        """Return the token as it stands in the file.

        Raises:
            CredentialError: the file never could be read, or is empty.
        """
        is_old = self._monotonic() - self._read_at >= TOKEN_REREAD_SECONDS
        if self._credential is None or is_old or file_mark(self._path) != self._mark:
            return self._reread()
        return self._credential

    async def renew(self, refused: Credential) -> Credential:
        """Return the token as it stands in the file, read now.

        Raises:
            CredentialError: the file never could be read, or is empty.
        """
        del refused
        return self._reread()

    async def close(self) -> None:
        """No handle is kept."""

    def _reread(self) -> Credential:
        mark = file_mark(self._path)
        try:
            token = self._path.read_text("utf-8").strip()
        except UnicodeDecodeError:
            return self._last_or(f"the token file {self._path} is no text")
        except OSError as error:
            return self._last_or(f"cannot read the token file {self._path}: {why(error)}")
        if not token.isascii() or not token.isprintable() or not token:
            return self._last_or(f"the token file {self._path} holds no token")
        self._credential, self._mark, self._read_at = Credential(token), mark, self._monotonic()
        return self._credential

    def _last_or(self, trouble: str) -> Credential:
        if self._credential is None:
            raise CredentialError(trouble)
        return self._credential
