"""The calls of a shard that both coordinators have: the outcomes of its appends. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from ottla.coordinator.effects import Moment, Token
    from ottla.coordinator.outbox import Outbox
    from ottla.protocol.errors import ErrorCode

Taken = TypeVar("Taken")


class ShardScope(Protocol):
    """What the parts of one shard share; ``moment`` is that of the shard's current call."""

    moment: Moment

    @property
    def outbox(self) -> Outbox: ...


class CoordinatorShard(Generic[Taken]):
    """The base of the shards. Every call returns the effects to execute, in order."""

    scope: ShardScope

    def _take(self) -> Taken:
        """Return the effects of the current call."""
        raise NotImplementedError

    def committed(self, token: Token, moment: Moment) -> Taken:
        """The high watermark has passed the records of that append."""
        self.scope.moment = moment
        self.scope.outbox.committed(token)
        return self._take()

    def failed(self, token: Token, error: ErrorCode, moment: Moment) -> Taken:
        """The records of that append were not written, or may be lost."""
        self.scope.moment = moment
        self.scope.outbox.failed(token, error)
        return self._take()

    def overdue(self, token: Token, moment: Moment) -> Taken:
        """The outcome of that append is unknown, and the requests waiting for it time out."""
        self.scope.moment = moment
        self.scope.outbox.overdue(token)
        return self._take()
