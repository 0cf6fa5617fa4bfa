"""The messages of the protocol: protobuf's, with descriptors read from `wire.proto`.

The file says everything, for other languages too. Nothing is generated from it, and nothing is tied
to a generator's version.

Letters: R rows, E numbers in a row.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import numpy as np

from xaijax.core.errors import FederatedProtocolError
from xaijax.core.optional import require

VERSION = 2  # of the protocol; another one is refused
PACKAGE = "xaijax.federated"
INSTALL = "xaijax[federated]"
LARGEST = 1 << 24  # bytes of one message
TOO_LARGE = f"{LARGEST:,} bytes are accepted. Ask for fewer rows in one request (batch=)."
FLOAT32 = float(np.finfo(np.float32).max)  # an answer's numbers are within it

# Messages of wire.proto, which uses no more of the language than this.
MESSAGE = re.compile(r"^message (\w+) \{(.*?)^\}", re.DOTALL | re.MULTILINE)
FIELD = re.compile(r"^  (repeated )?(\w+) (\w+) = (\d+);", re.MULTILINE)

# The requests to a party: {method: (request, reply)}.
METHODS = {
    name: (f"{name}Request", f"{name}Reply")
    for name in ("Open", "Align", "Answer", "Block", "Intersect", "Start", "Load", "Predict")
}


def encode(message: str, /, **fields: Any) -> bytes:
    """The bytes of a message with these fields; the same fields give the same bytes.

    Raises ImportError if protobuf is not installed.
    """
    return _classes()[message](**fields).SerializeToString(deterministic=True)


def decode(message: str, data: bytes) -> Any:
    """The decoded message, an object with its fields in `wire.proto`.

    Raises FederatedProtocolError for bytes that are none.
    """
    if len(data) > LARGEST:
        raise FederatedProtocolError(f"message: {message} of {len(data):,} bytes; {TOO_LARGE}")
    parsed = _classes()[message]()
    try:
        parsed.ParseFromString(bytes(data))
    except Exception:  # DecodeError; its text may quote the bytes
        raise FederatedProtocolError(
            f"message: {len(data):,} bytes that are no {message} were received. Both parties need "
            f"xaijax with protocol version {VERSION}."
        ) from None
    return parsed


def numbers(rows: np.ndarray) -> bytes:
    """Encodes numbers [R, E] for a message."""
    return np.ascontiguousarray(rows, "<f8").tobytes()


def rows_of(data: bytes, count: int, width: int, whose: str, largest: float = np.inf) -> np.ndarray:
    """The numbers [count, width] that were sent, float64.

    Raises FederatedProtocolError for another length, NaN, infinity, and sizes above `largest`.
    """
    if len(data) != 8 * count * width:
        raise FederatedProtocolError(
            f"{whose}: {len(data):,} bytes, where {count:,} rows of {width:,} numbers take "
            f"{8 * count * width:,}. The other party speaks another protocol, or its model changed."
        )
    rows = np.frombuffer(data, "<f8").reshape(count, width)
    for wrong, said in (
        (~np.isfinite(rows), "NaN or infinite"),
        (np.abs(rows) > largest, f"above {largest:.3g}, the largest of float32"),
    ):
        if wrong.any():
            raise FederatedProtocolError(
                f"{whose}: {int(wrong.sum()):,} of {rows.size:,} numbers are {said}. The other "
                "party's part of the model must be fixed, or rescaled."
            )
    return rows.astype(np.float64)


@functools.cache
def file_descriptor() -> Any:
    """The descriptors of all messages, as protobuf's FileDescriptorProto."""
    descriptor = require("google.protobuf.descriptor_pb2", INSTALL)
    file = descriptor.FileDescriptorProto(name="wire.proto", package=PACKAGE, syntax="proto3")
    kinds = descriptor.FieldDescriptorProto
    text = Path(__file__).with_name("wire.proto").read_text(encoding="utf-8")
    for name, body in MESSAGE.findall(text):
        message = file.message_type.add(name=name)
        for repeated, word, field, number in FIELD.findall(body):
            added = message.field.add(name=field, number=int(number))
            added.label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
            if word[0].isupper():
                added.type, added.type_name = kinds.TYPE_MESSAGE, f".{PACKAGE}.{word}"
            else:
                added.type = getattr(kinds, f"TYPE_{word.upper()}")
    return file


@functools.cache
def _classes() -> dict[str, Any]:
    pool = require("google.protobuf.descriptor_pool", INSTALL).DescriptorPool()
    factory = require("google.protobuf.message_factory", INSTALL)
    pool.Add(file_descriptor())
    names = [message.name for message in file_descriptor().message_type]
    classes = {name: pool.FindMessageTypeByName(f"{PACKAGE}.{name}") for name in names}
    return {name: factory.GetMessageClass(kind) for name, kind in classes.items()}
