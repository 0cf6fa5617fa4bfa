"""`import xaijax` is light: it loads no heavy library, starts no device, asks no network."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from repository import ROOT

HEAVY = (
    "sklearn pandas matplotlib polars flax equinox shap shapiq optax scipy pooch requests jinja2 "
    "IPython opendp grpc cryptography google.protobuf"
).split()

# The hook sees every connection that Python opens, whichever library asks for it.
PROGRAM = """
import json, sys
sys.path[:0] = {path!r}
asked = []
sys.addaudithook(lambda event, args: asked.append(event) if event in {events!r} else None)
{statement}
from jax._src import xla_bridge
print(json.dumps({{
    "file": sys.modules["xaijax"].__file__,
    "heavy": [name for name in {heavy!r} if name in sys.modules],
    "devices": xla_bridge.backends_are_initialized() or bool(xla_bridge._backends),
    "network": asked,
}}))
"""
EVENTS = ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "urllib.Request")


def loaded_by(statement: str) -> dict[str, object]:
    """What a fresh interpreter has loaded after the statement."""
    program = PROGRAM.format(
        path=[str(ROOT), str(ROOT / "kernels")], events=EVENTS, heavy=HEAVY, statement=statement
    )
    command = [sys.executable, "-I", "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_import_is_light() -> None:
    found = loaded_by("import xaijax")
    assert found.pop("file") == str(ROOT / "xaijax" / "__init__.py")
    assert found == {"heavy": [], "devices": False, "network": []}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "what", "expected"),
    [
        ("import xaijax, pandas", "heavy", ["pandas"]),
        ("import xaijax, jax; jax.devices()", "devices", True),
        (
            "import xaijax, socket as s; s.socket(type=s.SOCK_DGRAM).connect(('127.0.0.1', 9))",
            "network",
            ["socket.connect"],
        ),
    ],
)
def test_the_check_sees_what_it_looks_for(statement: str, what: str, expected: object) -> None:
    assert loaded_by(statement)[what] == expected
