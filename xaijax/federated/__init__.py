"""Federated Shapley between parties that do not trust each other with their rows.

    guest = xj.federated.Guest(rows, identifiers, part)          # in one process
    xj.federated.serve(guest, "0.0.0.0:7443", tls)

    shop = xj.federated.Connection("shop.example:7443", tls)     # in another
    host = xj.federated.Host(split.host, background, {"shop": shop}, identifiers)
    explanation = host(X)

docs/federated.md has the protocol, the threat model, and what it does not protect against. Needs
`pip install "xaijax[federated]"`.

Reading order:

    command_line/   `xaijax guest`, `xaijax host` and `xaijax arbiter`
    host/           the party that explains
    arbiter         a third process, trusted by both sides, in which a joint model runs
    guest/          the party that keeps its rows and sends outputs within its policy
    split/          models in parts, one for each party
    wire/           messages, connections, certificates, hidden identifiers
    in_process/     `FederatedExplainer`: the same values in one process that has all columns
"""

from typing import TYPE_CHECKING

from xaijax.core.deprecated import warn_deprecated as _warn_deprecated
from xaijax.federated.arbiter import Arbiter as Arbiter
from xaijax.federated.guest.audit import verify_audit as verify_audit
from xaijax.federated.guest.guest import Guest as Guest
from xaijax.federated.guest.policy import Policy as Policy
from xaijax.federated.host.host import Host as Host
from xaijax.federated.split.makers import split_logistic as split_logistic
from xaijax.federated.split.makers import split_neighbours as split_neighbours
from xaijax.federated.split.makers import split_network as split_network
from xaijax.federated.split.makers import split_trees as split_trees
from xaijax.federated.split.model import PartySplit as PartySplit
from xaijax.federated.split.model import SplitModel as SplitModel
from xaijax.federated.split.model import load_split as load_split
from xaijax.federated.split.parts import FunctionPart as FunctionPart
from xaijax.federated.split.parts import Part as Part
from xaijax.federated.split.parts import load_part as load_part
from xaijax.federated.wire.grpc_transport import Connection as Connection
from xaijax.federated.wire.grpc_transport import Server as Server
from xaijax.federated.wire.grpc_transport import serve as serve
from xaijax.federated.wire.party import InMemory as InMemory
from xaijax.federated.wire.tls import Tls as Tls
from xaijax.federated.wire.tls import make_certificates as make_certificates

if not TYPE_CHECKING:  # a checker shall see the names that there are

    def __getattr__(name: str) -> object:
        if name == "Split":
            _warn_deprecated(
                "xaijax.federated.Split", use="xaijax.federated.PartySplit", removed_in="0.3"
            )
            return PartySplit
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
