"""Defines the errors. Every message names the argument, the value given, what is accepted, and the
remedy.
"""

from __future__ import annotations


class XaiError(Exception):
    """Base class of every error that xaijax raises itself."""


class InputError(XaiError, ValueError):
    """An argument has a value that is not accepted."""


class InputTypeError(XaiError, TypeError):
    """An argument has a type that is not accepted, or a keyword is unknown."""


class ResumeMismatchError(InputError):
    """A run directory contains parts of another sweep than the requested one."""


class EnumerationLimitError(InputError):
    """Exact values would need more coalitions than can be enumerated."""


class MemoryPlanError(XaiError, MemoryError):
    """The request does not fit the memory limit, even in the smallest batches."""


class ModelOutputError(XaiError, ValueError):
    """The model's output is not a finite [R] or [R, K] array of numbers."""


class NonDeterministicModelError(ModelOutputError):
    """The model returned different outputs for the same rows."""


class ForkedProcessError(XaiError, RuntimeError):
    """The process was forked after JAX started its threads; JAX calls would deadlock."""


class SweepIncompleteError(XaiError, RuntimeError):
    """Some parts of a sweep are missing: they failed, or have not been computed yet."""


class PrivacyError(XaiError, ValueError):
    """A private release cannot be proved private, or its arguments contradict each other."""


class BudgetExceededError(PrivacyError):
    """A private release would spend more than the ledger's budget."""


class FederatedProtocolError(XaiError, RuntimeError):
    """A remote party violated the protocol or rejected a message."""


class FederatedPolicyError(FederatedProtocolError):
    """A guest's policy does not allow the request."""


class FederatedPeerLost(FederatedProtocolError):
    """A remote party cannot be reached, or did not answer before the deadline."""


class XaiWarning(UserWarning):
    """Base class of every warning that xaijax issues."""


class LongRunWarning(XaiWarning):
    """A run that is about to start will take long; the message says how to shorten it."""
