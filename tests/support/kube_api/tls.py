"""TLS for the fake API server, with certificates that only tests trust.

``certificates/make`` made them with openssl; no test needs that program.
"""

from __future__ import annotations

import ssl
from pathlib import Path

CERTIFICATES = Path(__file__).parent / "certificates"

CA_1 = CERTIFICATES / "ca-1.crt"
CA_2 = CERTIFICATES / "ca-2.crt"
KUBELET_A = CERTIFICATES / "kubelet-a.pem"
KUBELET_B = CERTIFICATES / "kubelet-b.pem"


def server_tls(name: str = "server-1") -> ssl.SSLContext:
    """Return a context that shows a server's certificate, and takes clients' of the first CA.

    Args:
        name: ``server-1`` of the first CA, ``server-2`` of the second, both for this machine's
            names; ``elsewhere`` for the name ``kube.test`` alone.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / f"{name}.pem")
    context.load_verify_locations(CA_1)
    context.verify_mode = ssl.CERT_OPTIONAL
    return context
