"""Certificates: who the parties are, and why a connection was refused."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import os
import re
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xaijax.core import checks
from xaijax.core.checks import listed, unique_names, yes_or_no
from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.optional import require
from xaijax.core.public import public, public_class
from xaijax.federated.wire.messages import INSTALL
from xaijax.results.files.npz import as_path


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
        content = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"tls: {name} {path} cannot be read ({error.strerror}).") from None
    if b"-----BEGIN" not in content:
        raise InputError(f"tls: {name} {path} is no PEM file.")
    return content


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
    matches = [words for name, words in known.items() if name in reason]
    return f"{matches[0] if matches else 'the handshake failed'} ({reason})"


AUTHORITY = "authority"
PARTY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")  # 64: the longest common name
DAYS = 30
BEFORE = datetime.timedelta(hours=1)  # clocks differ: good from then on


@public
def make_certificates(
    folder: str | Path, names: Sequence[str], expired: bool = False
) -> dict[str, Tls]:
    """Makes certificates for trials: an authority, and for each name a certificate that it signed.

    They are valid for "localhost", 127.0.0.1 and ::1, and for 30 days. Real parties get theirs from
    an authority that all of them know.

    Args:
        folder: where the files go; it is made if there is none. Files of the same names are
            overwritten. Only the owner may read them.
        names: names of the parties. A party's name is the first one in its certificate, by which
            policies and logs know it.
        expired: bool. True: the certificates ended half an hour ago, to try out what parties then
            do. The authority's own stays valid.

    Returns:
        {name: `Tls`}. The files are authority.pem, and NAME.pem and NAME.key of each name.

    Raises:
        InputError: a name that is empty, longer than 64 characters or no name of a file (a name
            holds letters, digits, ".", "-" and "_"), that occurs twice, or "authority".
        InputTypeError: names that are no texts, or another argument of another kind.
        ImportError: the extra [federated] is not installed.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import xaijax as xj
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     tls = xj.federated.make_certificates(folder, ["bank", "shop"])
        ...     files = sorted(file.name for file in Path(folder).iterdir())
        >>> files
        ['authority.pem', 'bank.key', 'bank.pem', 'shop.key', 'shop.pem']
        >>> tls["shop"].certificate.name
        'shop.pem'
    """
    names = _checked(names)
    yes_or_no(expired, "expired")
    place = as_path(folder, "folder")
    x509 = require("cryptography.x509", INSTALL)
    ec = require("cryptography.hazmat.primitives.asymmetric.ec", INSTALL)
    forms = require("cryptography.hazmat.primitives.serialization", INSTALL)
    pem, private = forms.Encoding.PEM, (forms.PrivateFormat.PKCS8, forms.NoEncryption())
    place.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    title = _name(x509, "xaijax trial authority")
    basic = x509.BasicConstraints(ca=True, path_length=0)
    usage = _usage(x509, signs_certificates=True)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    authority = _signed(x509, title, title, key.public_key(), key, [basic, usage, identifier])
    days = -1 / 48 if expired else DAYS
    _write(place / "authority.pem", authority.public_bytes(pem))
    made = {}
    for name in names:
        pair = ec.generate_private_key(ec.SECP256R1())
        local = [x509.IPAddress(ipaddress.ip_address(address)) for address in ("127.0.0.1", "::1")]
        known_as = [x509.DNSName(name), x509.DNSName("localhost"), *local]
        extensions = [
            x509.BasicConstraints(ca=False, path_length=None),
            _usage(x509, signs_certificates=False),
            x509.SubjectAlternativeName(known_as),
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier),
            x509.SubjectKeyIdentifier.from_public_key(pair.public_key()),
        ]
        subject = _name(x509, name)
        certificate = _signed(x509, subject, title, pair.public_key(), key, extensions, days)
        _write(place / f"{name}.pem", certificate.public_bytes(pem))
        _write(place / f"{name}.key", pair.private_bytes(pem, *private))
        made[name] = Tls(place / "authority.pem", place / f"{name}.pem", place / f"{name}.key")
    return made


def _checked(names: Any) -> list[str]:
    """Names of parties that can be names of files, each once."""
    parties = listed(names, "names")
    if not parties:
        raise InputError("names must hold the name of one party at least, got none.")
    for name in parties:
        if not isinstance(name, str):
            raise InputTypeError(f"names must hold texts, got {type(name).__name__} {name!r:.60}.")
        if not PARTY.fullmatch(name) or name == AUTHORITY:
            raise InputError(
                f"names: {name!r:.80} cannot name a party and its files. Use 1 to 64 letters, "
                f"digits, '.', '-' and '_', a letter or digit first, and not {AUTHORITY!r}."
            )
    unique_names(parties, "names")
    return parties


def _name(x509: Any, text: str) -> Any:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def _usage(x509: Any, signs_certificates: bool) -> Any:
    # No content commitment, no encipherment of keys or data, no key agreement.
    signs = (signs_certificates, signs_certificates)
    return x509.KeyUsage(True, False, False, False, False, *signs, False, False)


def _signed(
    x509: Any, subject: Any, issuer: Any, public_key: Any, key: Any, facts: Any, days: float = DAYS
) -> Any:
    hashes = require("cryptography.hazmat.primitives.hashes", INSTALL)
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BEFORE)
        .not_valid_after(now + datetime.timedelta(days=days))
    )
    for fact in facts:
        critical = isinstance(fact, x509.BasicConstraints | x509.KeyUsage)
        builder = builder.add_extension(fact, critical=critical)
    return builder.sign(key, hashes.SHA256())


def _write(path: Path, data: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        os.chmod(path, 0o600)  # one that was there before keeps its mode
        file.write(data)
