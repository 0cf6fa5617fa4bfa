"""gRPC with mutual TLS: a party as a server, and the transport that reaches it.

There is no connection without certificates on both sides: neither an option nor a default turns
them off.
"""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from xaijax.core import checks
from xaijax.core.errors import FederatedPeerLost, FederatedProtocolError, InputError
from xaijax.core.optional import require
from xaijax.core.public import public, public_class
from xaijax.federated.wire.messages import INSTALL, LARGEST, METHODS, TOO_LARGE
from xaijax.federated.wire.party import Names, Party, check_party
from xaijax.federated.wire.tls import Tls, diagnosis, host_and_port

SERVICE = "xaijax.federated.Party"
ROOM = 1 << 10  # of a message, in addition to what a party puts into it
WORKERS = 16  # requests wait for a slow part in them, while others are answered
SIZES = [
    ("grpc.max_receive_message_length", LARGEST + ROOM),
    ("grpc.max_send_message_length", LARGEST + ROOM),
]


@public_class
class Server:
    """A party that listens, made by `serve`.

    Args:
        server: the gRPC server; `serve` makes it.
        address: text, "host:port".

    Attributes:
        address: "host:port", where others reach the party. The port is the actual one, also if
            `serve` was given port 0.

    Example:
        >>> import xaijax as xj
        >>> server = xj.federated.serve(guest, "127.0.0.1:0", tls)  # doctest: +SKIP
        >>> try:  # doctest: +SKIP
        ...     server.wait()
        ... finally:
        ...     server.stop()

        See `serve` for guest and tls.
    """

    def __init__(self, server: Any, address: str) -> None:
        self._server = server
        self.address = address  # "host:port", where others reach it
        self._stopped = threading.Event()

    def wait(self) -> None:
        """Returns when `stop` is called; an interrupt (Ctrl-C) of the process ends it too."""
        self._stopped.wait()

    def stop(self) -> None:
        """Stops listening; requests under way have up to a second to finish."""
        self._server.stop(1.0).wait()
        self._stopped.set()


@public
def serve(party: Party, address: str, tls: Tls) -> Server:
    """Lets a `Guest` or an `Arbiter` listen for requests, by gRPC with mutual TLS.

    Mutual TLS means that both sides show a certificate. Only clients with a certificate that
    `tls.authority` signed are answered; no option turns this off.

    Args:
        party: `Guest` or `Arbiter`.
        address: text, "host:port". Port 0 means any free port. An IPv6 address is in brackets, as
            in "[::1]:7443".
        tls: `Tls`, the party's files.

    Returns:
        A `Server` that is listening.

    Raises:
        InputError, InputTypeError: an address that cannot be listened at, or certificates that
            cannot be read or that gRPC does not take.
        ImportError: the extra [federated] is not installed.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> import xaijax as xj
        >>> rows = np.array([[0.0, 2.0, 1.0], [4.0, 0.0, 1.0]])
        >>> part = xj.federated.Part("linear", {"weights": np.array([0.5, -1.0, 2.0])})
        >>> guest = xj.federated.Guest(rows, ["ann", "ben"], part)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     tls = xj.federated.make_certificates(folder, ["shop"])["shop"]
        ...     server = xj.federated.serve(guest, "127.0.0.1:0", tls)  # doctest: +SKIP
        ...     server.stop()
    """
    grpc = require("grpc", INSTALL)
    host, _ = host_and_port(address)
    check_party(party)
    checks.instance(tls, "tls", Tls, "an xaijax.federated.Tls(authority, certificate, key)")
    authority, certificate, key = tls.read()
    credentials = grpc.ssl_server_credentials(
        [(key, certificate)], root_certificates=authority, require_client_auth=True
    )
    options = [*SIZES, ("grpc.so_reuseport", 0)]
    pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="xaijax-party")
    server = grpc.server(pool, options=options)
    handlers = {
        method: grpc.unary_unary_rpc_method_handler(_handler(party, method, grpc))
        for method in METHODS
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    try:
        port = server.add_secure_port(address, credentials)
    except RuntimeError:
        port = 0
    if port == 0:
        raise InputError(
            f"address: {address} cannot be listened at, or the certificate and the key do not "
            "belong together. Name a free port, and check the files."
        )
    server.start()
    return Server(server, f"[{host}]:{port}" if ":" in host else f"{host}:{port}")


def _handler(party: Party, method: str, grpc: Any) -> Any:
    def handle(data: bytes, context: Any) -> bytes:
        names = _names(context.auth_context())
        if not names:  # TLS would not have let it through
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "a client certificate is needed")

        def waits() -> bool:
            left = context.time_remaining()  # gRPC may learn late that the host has given up
            return context.is_active() and (left is None or left > 0)

        return party.handle(method, names, data, waits)

    return handle


def _names(authenticated: Any) -> Names:
    """The alternative names of a certificate; its common name only if there are none.

    Authorities check the alternative names: a common name next to them may be anybody's.
    """
    for key in ("x509_subject_alternative_name", "x509_common_name"):
        if names := authenticated.get(key, ()):
            return tuple(dict.fromkeys(name.decode("utf-8", "replace") for name in names))
    return ()


@public_class
class Connection:
    """The transport to a party in another process, by gRPC with mutual TLS.

    It connects at the first request, and again after a failure. `Host` and `Arbiter` take it in
    `guests=`, `transports=` and `arbiter=`; `InMemory` is its counterpart in one process.

    Args:
        address: text, "host:port". The party's certificate must name the host.
        tls: `Tls`, the files of the party that asks.

    Attributes:
        address: "host:port".

    Raises:
        InputError, InputTypeError: an address or files that are not accepted.

    Example:
        >>> import tempfile
        >>> import xaijax as xj
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     tls = xj.federated.make_certificates(folder, ["bank"])["bank"]
        ...     xj.federated.Connection("shop.example:7443", tls)
        Connection('shop.example:7443')
    """

    def __init__(self, address: str, tls: Tls) -> None:
        host_and_port(address)
        if not isinstance(tls, Tls):
            raise InputError(
                "tls: There is no connection without an xaijax.federated.Tls(authority, "
                f"certificate, key); got {type(tls).__name__}."
            )
        self.address, self._tls = address, tls
        self._channel: Any = None
        self._known = False  # whether the party ever answered

    def call(self, method: str, data: bytes, deadline: float) -> bytes:
        """Sends one request and waits for the reply. `Host` and `Arbiter` call it.

        Args:
            method: the name of the request, such as "Open" or "Answer".
            data: the bytes of the request.
            deadline: float, in seconds.

        Returns:
            The bytes of the party's reply.

        Raises:
            FederatedProtocolError: certificates or sizes that one of the sides does not accept.
            FederatedPeerLost: no reply before the deadline.
            ImportError: the extra [federated] is not installed.
        """
        grpc = require("grpc", INSTALL)
        try:
            ask = self._open(grpc).unary_unary(f"/{SERVICE}/{method}")
            reply = ask(data, timeout=deadline)
        except grpc.RpcError as error:
            failure = self._failure(grpc, error, deadline)
            self.close()
            raise failure from None
        self._known = True
        return reply

    def close(self) -> None:
        """Closes the connection; the next request opens another one."""
        channel, self._channel = self._channel, None
        if channel is not None:
            with contextlib.suppress(Exception):
                channel.close()

    def __repr__(self) -> str:
        return f"Connection({self.address!r})"

    def _open(self, grpc: Any) -> Any:
        if self._channel is None:
            authority, certificate, key = self._tls.read()
            credentials = grpc.ssl_channel_credentials(authority, key, certificate)
            # A pool of its own: another channel's waiting time after a failure is not ours.
            options = [*SIZES, ("grpc.use_local_subchannel_pool", 1)]
            self._channel = grpc.secure_channel(self.address, credentials, options=options)
        return self._channel

    def _failure(self, grpc: Any, error: Any, deadline: float) -> FederatedProtocolError:
        code = error.code()
        where = f"party at {self.address}"
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            return FederatedPeerLost(
                f"{where}: no answer within deadline={deadline:g} seconds. Its earlier answers are "
                "kept: explain again when it can be reached, or give a longer deadline."
            )
        if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
            return FederatedProtocolError(
                f"{where}: a message is larger than accepted: {TOO_LARGE}"
            )
        if code is grpc.StatusCode.UNIMPLEMENTED:
            return FederatedProtocolError(f"{where} is no party of xaijax; check the address.")
        why = "" if self._known else diagnosis(self.address, self._tls, min(deadline, 5.0))
        if why:
            return FederatedProtocolError(
                f"tls: {where}: {why}. Both parties need certificates of the authority that the "
                "other one trusts, and the certificate must name the address."
            )
        if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
            return FederatedPeerLost(
                f"{where} is lost: nobody listens there, or it stopped. Its earlier answers are "
                "kept: explain again when it can be reached."
            )
        return FederatedProtocolError(f"{where}: gRPC failed with {code.name}; see its own log.")
