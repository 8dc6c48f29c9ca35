"""The errors of requests: not sent, not answered, refused by a broker or not supported by it.

Each error says in one sentence what happened where, and ``retriable`` says whether the same call
may succeed later. ``was_sent`` is False only if no byte of the request left this process, so
callers never have to guess whether a request may have taken effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.ports import Address


class ClientError(Exception):
    """The base class of the errors that client calls raise.

    Attributes:
        retriable: Whether the same call may succeed later.
        code: The broker's error code; NONE if no broker answered with one.
        broker: The address of the broker, or None.
        topic: The topic's name, or None.
        partition: The partition's number, or None.
    """

    retriable: bool = False
    code: ErrorCode = ErrorCode.NONE
    broker: str | None = None
    topic: str | None = None
    partition: int | None = None

    @property
    def can_retry(self) -> str:
        """A sentence that says whether the same call can be made again."""
        if self.retriable:
            return "the same call may succeed later"
        return "the same call will fail again"


class TransportError(ClientError):
    """A request got no answer.

    If ``was_sent`` is True its outcome is unknown: it may have taken effect or may still do so. If
    False, it has not taken effect and never will."""

    retriable = True

    def __init__(self, text: str, address: Address, reason: str, *, was_sent: bool) -> None:
        super().__init__(text)
        self.address = address
        self.broker = str(address)
        self.reason = reason
        self.was_sent = was_sent

    @property
    def can_retry(self) -> str:
        if self.was_sent:
            return "it may have taken effect, so that the same call may do it twice"
        return "nothing of it was sent, so the same call can be made again"


class BrokerUnreachable(TransportError):
    """No connection to the broker could be made."""

    def __init__(self, address: Address, reason: str) -> None:
        text = f"cannot reach a broker at {address}: {reason}"
        super().__init__(text, address, reason, was_sent=False)


class AuthenticationFailed(BrokerUnreachable):
    """The broker or this client refuses the other: its certificate, its login, or its protocol.

    It stays so until a setting or a certificate changes, so that no call tries again."""

    retriable = False

    @property
    def can_retry(self) -> str:
        return "nothing was sent, and the same call fails until the settings are changed"


class ConnectionLost(TransportError):
    """The connection broke while a request was in flight."""

    def __init__(self, address: Address, reason: str, *, was_sent: bool) -> None:
        doubt = "; whether the request took effect is unknown" if was_sent else ""
        text = f"the connection to {address} was lost: {reason}{doubt}"
        super().__init__(text, address, reason, was_sent=was_sent)


class RequestTimedOut(TransportError):
    """The broker did not answer in time.

    After ``request_timeout_ms`` the client closes the connection, because later answers on it are
    late too. If only the call's own time limit ended, the connection stays open for other calls and
    the late answer is dropped."""

    def __init__(self, address: Address, name: str, timeout_ms: float, *, was_sent: bool) -> None:
        reason = f"no answer to {name} within {timeout_ms:.0f} ms"
        super().__init__(f"{reason} from {address}", address, reason, was_sent=was_sent)


class AnswerTooLarge(ConnectionLost):
    """A response is larger than ``response_bytes_max``, usually because it holds one larger batch.

    The client closes the connection, because it cannot skip the response. A consumer's position
    stays before the batch: seek past it, or raise ``response_bytes_max``."""

    retriable = False

    def __init__(self, address: Address, name: str, size_bytes: int, limit_bytes: int) -> None:
        reason = f"its answer to {name} has {size_bytes} bytes, and {limit_bytes} are allowed"
        super().__init__(address, reason, was_sent=True)
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes
        self.offset: int | None = None

    def locate(self, where: TopicPartition, offset: int) -> None:
        """Internal: add that the response was for this partition alone, from this offset on.

        Args:
            where: The partition.
            offset: The offset of the batch.
        """
        self.topic, self.partition = where
        self.offset = offset
        self.args = (
            f"topic {where.topic!r} partition {where.partition}: the batch at offset {offset} "
            f"needs an answer of {self.size_bytes} bytes (from {self.broker}), and "
            f"response_bytes_max allows {self.limit_bytes}: raise it, or seek behind the batch",
        )

    @property
    def can_retry(self) -> str:
        return "the same call will fail again as long as response_bytes_max is what it is"


class UnsupportedByBroker(ClientError):
    """The broker does not support a needed API, or no version of it that the client supports."""


class RequestRefused(ClientError, KafkaError):
    """A broker answered with an error code."""

    def __init__(
        self,
        code: ErrorCode,
        message: str | None = None,
        *,
        broker: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
    ) -> None:
        KafkaError.__init__(self, code, message)
        self.retriable = code.retriable
        self.broker = broker
        self.topic = topic
        self.partition = partition

    @classmethod
    def for_partition(
        cls,
        code: ErrorCode,
        where: TopicPartition,
        broker: str | None = None,
        message: str | None = None,
    ) -> RequestRefused:
        """Internal: create the error for one partition.

        Args:
            code: The broker's error code.
            where: The partition.
            broker: The broker's address; None (default) if unknown.
            message: The broker's message; None (default) for the code's own text.
        """
        return cls(code, message, broker=broker, topic=where.topic, partition=where.partition)

    def __str__(self) -> str:
        place = ""
        if self.topic is not None and not self.message.startswith(f"topic {self.topic!r} "):
            part = "" if self.partition is None else f" partition {self.partition}"
            place = f"topic {self.topic!r}{part}: "
        source = f" (from {self.broker})" if self.broker is not None else ""
        return f"{place}{self.message} [{self.code.name}]{source}"


class ClientClosed(ClientError):
    """The client was closed, or was never started."""
