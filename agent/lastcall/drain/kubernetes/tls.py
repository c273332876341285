"""The TLS context for the API server, made anew when a certificate on disk is replaced."""

from __future__ import annotations

import asyncio
import os
import ssl

from lastcall.drain.kubernetes.config import Cluster
from lastcall.drain.kubernetes.credentials import Credential, CredentialError
from lastcall.drain.kubernetes.files import Pem, why


class TlsContexts:
    """Gives the context to use now.

    A context is made in a thread: reading a long list of CAs takes tens of milliseconds. While a
    file is gone or half written, the last good context is used.

    Args:
        cluster: what the server's certificate and the client's own are.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._context: ssl.SSLContext | None = None
        self._marks: object = None
        self._lock = asyncio.Lock()

    async def current(self, credential: Credential) -> ssl.SSLContext | None:
        """Return the context; ``None`` for a server spoken to without TLS.

        Args:
            credential: may hold a client certificate that an exec plugin gave.

        Raises:
            CredentialError: there is no context yet, and none can be made.
        """
        if not self._cluster.server.startswith("https:"):
            return None
        marks = self._seen(credential)
        if self._context is not None and marks == self._marks:
            return self._context
        async with self._lock:
            if self._context is None or marks != self._marks:
                await self._make(marks, credential)
        return self._context

    async def _make(self, marks: object, credential: Credential) -> None:
        try:
            self._context = await asyncio.to_thread(_context, self._cluster, credential)
        except CredentialError:
            if self._context is None:
                raise
        else:
            self._marks = marks

    def _seen(self, credential: Credential) -> object:
        parts = (self._cluster.ca, self._cluster.certificate, self._cluster.key)
        return credential.certificate, *(part and part.mark() for part in parts)


def _context(cluster: Cluster, credential: Credential) -> ssl.SSLContext:
    # Not create_default_context: its strict flags, on since Python 3.13, refuse the CAs of many
    # clusters (no authority key identifier).
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if cluster.ca is None:
        context.load_default_certs()
    else:
        _load_ca(context, cluster.ca)
    if credential.certificate:
        _load_pair(context, credential.certificate, "the exec plugin")
    elif cluster.certificate is not None and cluster.key is not None:
        pair = _read(cluster.certificate, "client certificate")
        if cluster.key != cluster.certificate:
            pair += b"\n" + _read(cluster.key, "client key")
        _load_pair(context, pair, _name(cluster.certificate))
    return context


def _load_ca(context: ssl.SSLContext, ca: Pem) -> None:
    try:
        context.load_verify_locations(cadata=_read(ca, "CA").decode("ascii", "replace"))
    except (ssl.SSLError, ValueError):
        raise CredentialError(f"no CA certificate in {_name(ca)}") from None


def _load_pair(context: ssl.SSLContext, pair: bytes, name: str) -> None:
    """Load a certificate with its key, which Python does by a file's name alone."""
    memory = os.memfd_create("client-certificate", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(memory), "wb") as file:
            file.write(pair)
        # Without a password at hand OpenSSL would ask for one on the terminal.
        context.load_cert_chain(f"/proc/self/fd/{memory}", password=lambda: "")
    except (ssl.SSLError, OSError, ValueError):
        raise CredentialError(f"no client certificate with its key in {name}") from None
    finally:
        os.close(memory)


def _read(pem: Pem, what: str) -> bytes:
    try:
        return pem.read()
    except OSError as error:
        raise CredentialError(f"cannot read the {what} in {pem.path}: {why(error)}") from None


def _name(pem: Pem) -> str:
    return "the kubeconfig" if pem.path is None else str(pem.path)
