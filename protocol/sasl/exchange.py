"""What the mechanisms share: the client's side as one interface, and how a login is refused.

A step that cannot go on raises ``KafkaError(SASL_AUTHENTICATION_FAILED)``. Its message is for the
log of the side that raises it. A broker sends its clients one sentence for all reasons, so that a
stranger does not learn which users exist.
"""

from __future__ import annotations

from typing import Protocol

from ottla.protocol.errors import ErrorCode, KafkaError

PLAIN = "PLAIN"
OAUTHBEARER = "OAUTHBEARER"

# The broker refuses longer names and passwords before it hashes them.
CREDENTIAL_BYTES_MAX = 255


class ClientExchange(Protocol):
    """The client's side of one login. It is used once."""

    mechanism: str

    def first(self) -> bytes:
        """The first token for the broker."""

    def next(self, challenge: bytes) -> bytes | None:
        """Return the token that answers the broker's; None if the broker's was the last one."""


def failed(reason: str) -> KafkaError:
    """The error of a login that ends here."""
    return KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, reason)
