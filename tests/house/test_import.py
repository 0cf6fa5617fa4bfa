"""`import xaijax` is light, and each public name is loaded at its first use.

No heavy library is loaded, no device started, and no network connection opened.
"""

from __future__ import annotations

import ast
import inspect
import json
import pickle
import subprocess
import sys

import pytest
from repository import ROOT, library_modules

import xaijax as xj

HEAVY = (
    "sklearn pandas matplotlib polars flax equinox shap shapiq optax scipy pooch requests jinja2 "
    "IPython opendp grpc cryptography google.protobuf"
).split()

MOST = 250  # modules of this project that `import xaijax` may load
ALL = "import xaijax; [getattr(xaijax, name) for name in dir(xaijax) if name != 'AEC']"

# The hook sees every connection that Python opens, whichever library asks for it.
PROGRAM = """
import json, sys
sys.path[:0] = {path!r}
asked = []
sys.addaudithook(lambda event, args: asked.append(event) if event in {events!r} else None)
{statement}
loaded = list(sys.modules)
from jax._src import xla_bridge
print(json.dumps({{
    "file": sys.modules["xaijax"].__file__,
    "modules": sum(name.startswith("xaijax") for name in loaded),
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


@pytest.mark.parametrize(
    ("statement", "most"),
    [
        ("import xaijax", MOST),
        ("from xaijax import Explainer", MOST),
        (ALL, len(library_modules())),
    ],
)
def test_import_is_light(statement: str, most: int) -> None:
    found = loaded_by(statement)
    assert found.pop("file") == str(ROOT / "xaijax" / "__init__.py")
    assert 0 < found.pop("modules") <= most  # type: ignore[operator]
    assert found == {"heavy": [], "devices": False, "network": []}


MADE = """
import numpy as np, xaijax as xj
rows = np.random.default_rng(0).normal(size=(8, {players}))
model = xj.as_model(lambda X: {answer}, backend={backend!r})
explainer = xj.Explainer(model, rows[:4]{options})
found = explainer(rows)
assert found.exact is {exact} and "Explanation" in repr(found) + found._repr_html_()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "given",
    [
        {"backend": "jax"},
        {"backend": "host"},
        {"players": 20, "exact": False, "options": ", budget=200"},
    ],
    ids=["exact", "host", "sampled"],
)
def test_a_first_call_loads_no_library_that_its_user_did_not(given: dict[str, object]) -> None:
    """SciPy is the exception: JAX needs it, and it has the quantiles of standard errors."""
    usual = {"players": 4, "exact": True, "options": "", "backend": "jax"}
    usual["answer"] = "abs(X[:, 0] * X[:, 1] + X[:, 2]) * X[:, 3]"
    heavy = loaded_by(MADE.format(**usual | given))["heavy"]
    assert isinstance(heavy, list) and set(heavy) <= {"scipy"}


def test_checkers_and_python_read_the_same_names() -> None:
    """The imports under TYPE_CHECKING and the tables that `__getattr__` reads."""
    tree = ast.parse(inspect.getsource(xj))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    aliases = [
        (node.module, alias)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    assert all(alias.asname == alias.name for _, alias in aliases), "`as` makes a name public"
    imports = {
        (f"{origin}.{alias.name}" if alias.name in xj._MODULES else origin, alias.name)
        for origin, alias in aliases
    }
    assert imports == {(home, name) for name, home in {**xj._HOME, **xj._MODULES}.items()}
    assert xj.__all__ == sorted(name for _, name in imports)
    assert set(xj.__all__) <= set(dir(xj))


STAR = """
from xaijax import *
import xaijax
assert not {name for name in xaijax.__all__ if name not in globals()}
assert all(globals()[name] is getattr(xaijax, name) for name in xaijax.__all__)
"""
THREADS = """
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
import xaijax
names, together = sorted(set(dir(xaijax)) - {"AEC"}), Barrier(8)
def load(turn):
    together.wait()
    return {name: getattr(xaijax, name) for name in names[turn:] + names[:turn]}
with ThreadPoolExecutor(8) as pool:
    first, *others = pool.map(load, range(0, 64, 8))
assert all(one[name] is first[name] for one in others for name in names)
"""
PICKLED = """
import pickle
one = pickle.loads({pickled!r})
import xaijax
assert xaijax.Baseline is type(one)
"""


@pytest.mark.parametrize(
    "program", [STAR, THREADS, PICKLED], ids=["star", "threads", "a pickle opened first"]
)
def test_names_are_loaded_at_their_first_use(program: str) -> None:
    if program is PICKLED:
        program = program.format(pickled=pickle.dumps(xj.Baseline([0.0])))
    loaded_by(program)


def test_a_misspelt_name_is_an_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'xaijax' has no attribute 'Explaner'"):
        xj.Explaner  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'Explaner'"):
        from xaijax import Explaner  # noqa: F401, PLC0415
    with pytest.raises(AttributeError, match=r"Say xaijax\.plots\.bar "):
        xj.bar_plot  # noqa: B018


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
