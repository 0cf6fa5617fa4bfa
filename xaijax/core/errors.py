"""The error family. Every message names the argument, what came, what is accepted, the remedy."""

from __future__ import annotations


class XaiError(Exception):
    """Base of every error that xaijax raises on its own account."""


class InputError(XaiError, ValueError):
    """An argument has a value that is not accepted."""


class InputTypeError(XaiError, TypeError):
    """An argument has a type that is not accepted, or a keyword is unknown."""


class ResumeMismatchError(InputError):
    """A run directory holds parts of another question than the one that is asked now."""


class EnumerationLimitError(InputError):
    """An exact answer would need more coalitions than can be enumerated."""


class MemoryPlanError(XaiError, MemoryError):
    """The request does not fit the memory limit, however it is cut."""


class ModelOutputError(XaiError, ValueError):
    """The model returned something that is not a finite [R] or [R, K] array of numbers."""


class NonDeterministicModelError(ModelOutputError):
    """The model gave different answers to the same rows."""


class ForkedProcessError(XaiError, RuntimeError):
    """This process was forked after JAX was used, and would wait for it for ever."""


class SweepIncompleteError(XaiError, RuntimeError):
    """Some parts of a sweep are missing: they failed, or nobody has answered them yet."""


class PrivacyError(XaiError, ValueError):
    """A private release that cannot be proved private, or that does not fit together."""


class BudgetExceededError(PrivacyError):
    """A private release that would spend more than the ledger's budget."""


class FederatedProtocolError(XaiError, RuntimeError):
    """A party over the wire said something else than the protocol wants, or was refused."""


class FederatedPolicyError(FederatedProtocolError):
    """A guest's policy does not allow what was asked."""


class FederatedPeerLost(FederatedProtocolError):
    """A party over the wire cannot be reached, or did not answer before the deadline."""


class XaiWarning(UserWarning):
    """Base of every warning that xaijax gives."""


class LongRunWarning(XaiWarning):
    """A run that is about to start will take long; the text says how to ask for less."""
