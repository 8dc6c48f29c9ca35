"""Decides when a broker's process is presumed dead, long before its session expires: its working
connection broke, and two attempts found that no process listens at its address.

A false alarm is safe: every decision that follows is a compare-and-set.
"""

from __future__ import annotations

from enum import Enum

from ottla.wire.errors import BrokerUnreachable, ConnectionLost

# How long to wait before it is asked again, ms: two refusals within 300 ms of a loss.
AGAIN_MS = 100
_REFUSALS_OF_THE_DEAD = 2


class FailureSign(Enum):
    """What a failure shows about the process at the other end."""

    REFUSED = "no process listens"
    BROKEN = "a connection broke"
    RESET = "one that was being made broke"
    NONE = "nothing: no answer in time, or an answer that is an error"


def sign_of(error: Exception) -> FailureSign:
    """Return what a failure shows."""
    cause = error.__cause__ if isinstance(error, BrokerUnreachable) else error
    if isinstance(cause, ConnectionRefusedError):
        return FailureSign.REFUSED
    if not isinstance(cause, ConnectionError | ConnectionLost):
        return FailureSign.NONE
    return FailureSign.RESET if cause is not error else FailureSign.BROKEN


class Suspicion:
    """The suspicion of one registration of one broker."""

    def __init__(self, *, is_lost: bool = False) -> None:
        # A broker that never answered may not listen yet, or at another address. A loss is
        # remembered: a dying process resets a connection or two before its port closes.
        self.is_lost = is_lost
        self._refusal_count = 0

    def failed(self, sign: FailureSign, *, has_answered: bool = True) -> bool:
        """Take in a failure; return whether the process is presumed dead."""
        if sign is not FailureSign.REFUSED:
            self.is_lost = self.is_lost or (has_answered and sign is FailureSign.BROKEN)
            self._refusal_count = 0
            return False
        self._refusal_count += 1
        return self.is_lost and self._refusal_count >= _REFUSALS_OF_THE_DEAD

    def answered(self) -> None:
        """The broker has answered."""
        self.is_lost = False
        self._refusal_count = 0
