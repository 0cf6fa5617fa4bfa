"""Certificates: who the parties are, and why a connection that was refused was refused."""

from __future__ import annotations

import contextlib
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.public import public_class


@public_class
@dataclass(frozen=True)
class Tls:
    """The files that a party needs for mutual TLS, in PEM. There is no connection without them.

    Args:
        authority: a file, the certificate of the authority that signs the other parties.
        certificate: a file, the party's own certificate. The authority that the other parties trust
            has signed it.
        key: a file, the private key of that certificate.

    Raises:
        InputError: a file that cannot be read, or that is no PEM file.
        InputTypeError: an argument that is no file's name.

    Example:
        >>> import tempfile
        >>> import xaijax as xj
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     files = xj.federated.make_certificates(folder, ["shop"])["shop"]
        ...     tls = xj.federated.Tls(files.authority, f"{folder}/shop.pem", f"{folder}/shop.key")
        ...     tls.read()[1].startswith(b"-----BEGIN CERTIFICATE-----")
        True
    """

    authority: str | Path
    certificate: str | Path
    key: str | Path

    def __post_init__(self) -> None:
        self.read()

    def read(self) -> tuple[bytes, bytes, bytes]:
        """The contents of the files: authority, certificate, key."""
        authority, certificate = _pem(self.authority, "authority"), self.certificate
        return authority, _pem(certificate, "certificate"), _pem(self.key, "key")


def _pem(path: str | Path, name: str) -> bytes:
    checks.instance(path, f"tls: {name}", str | Path, "a file's name")
    try:
        found = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"tls: {name} {path} cannot be read ({error.strerror}).") from None
    if b"-----BEGIN" not in found:
        raise InputError(f"tls: {name} {path} is no PEM file.")
    return found


def host_and_port(address: str) -> tuple[str, int]:
    """("localhost", 7443) of "localhost:7443". Raises InputError for another form."""
    if not isinstance(address, str):
        raise InputTypeError(f"address must be a text 'host:port', got {address!r}.")
    host, _, port = address.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not bare or not port.isdecimal() or not port.isascii() or int(port) >= 1 << 16:
        raise InputError(f"address must be 'host:port', got {address!r}.")
    if ":" in bare and bare == host:
        raise InputError(f"address: an IPv6 address is in brackets, '[::1]:7443', got {address!r}.")
    return bare, int(port)


def diagnosis(address: str, tls: Tls, seconds: float) -> str:
    """Why no TLS connection comes about with these files, in words; "" if one does, or if nobody
    listens.

    gRPC reports "unavailable" for all of it. A server that wants another client certificate says so
    after the handshake (TLS 1.3), so one byte is read.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["h2"])
    host, port = host_and_port(address)
    try:
        context.load_verify_locations(str(tls.authority))
        context.load_cert_chain(str(tls.certificate), str(tls.key), password="")  # asks nobody
    except ssl.SSLError as error:
        return f"the certificate and the key do not belong together ({error.reason})"
    try:
        plain = socket.create_connection((host, port), timeout=seconds)
    except OSError:
        return ""
    with contextlib.closing(plain):
        try:
            with context.wrap_socket(plain, server_hostname=host) as secure:
                secure.settimeout(min(1.0, seconds))
                if not secure.recv(1):  # a gRPC server speaks first, to clients that it takes
                    return (
                        "the other party closed the connection when it had seen the certificate; "
                        "it does not trust the authority that signed it, or none was shown"
                    )
        except ssl.SSLCertVerificationError as error:
            return f"the other party's certificate is not accepted: {error.verify_message}"
        except ssl.SSLError as error:
            return _in_words(error.reason or "")
        except OSError:  # a timeout: connected, and nothing was said
            return ""
    return ""


def _in_words(reason: str) -> str:
    known = {
        "UNKNOWN_CA": "the other party does not know the authority of the certificate",
        "CERTIFICATE_REQUIRED": "the other party wants a certificate",
        "HANDSHAKE_FAILURE": "the other party refuses the certificate",
        "BAD_CERTIFICATE": "the other party refuses the certificate",
        "CERTIFICATE_EXPIRED": "the certificate has expired",
        "WRONG_VERSION_NUMBER": "the other party does not speak TLS",
        "UNEXPECTED_EOF": "the other party closed the connection while it was being secured",
        "RECORD_LAYER_FAILURE": "the other party does not speak TLS",
    }
    told = [words for name, words in known.items() if name in reason]
    return f"{told[0] if told else 'the handshake failed'} ({reason})"
