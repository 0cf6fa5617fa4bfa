"""The errors of the tables: not there, not the right bytes, or the extra is missing."""

from __future__ import annotations

from xaijax.core.errors import XaiError


class DataNotFoundError(XaiError, FileNotFoundError):
    """A table's file is in none of the places looked in, and could not be downloaded."""


class DataHashError(XaiError, ValueError):
    """A table's file is there, but its bytes are not the pinned ones."""


class MissingExtraError(XaiError, ImportError):
    """An optional library that the tables need is not installed."""
