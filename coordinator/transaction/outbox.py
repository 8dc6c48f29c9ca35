"""The outbox of a transaction shard, which also requests producer ids and markers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.outbox import Outbox
from ottla.coordinator.transaction.effects import DrawId, WriteMarkers
from ottla.coordinator.transaction.states import TransactionState
from ottla.protocol.errors import ErrorCode
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ottla.coordinator.effects import Token
    from ottla.coordinator.transaction.effects import TransactionEffects
    from ottla.coordinator.transaction.metadata import TransactionMetadata
    from ottla.protocol.ids import TopicPartition

    Partitions = tuple[TopicPartition, ...]


class _Markers(NamedTuple):
    on_written: Callable[[], object]
    on_refused: Callable[[Partitions], object]


class TransactionOutbox(Outbox):
    """One per shard; the shard empties it with ``take_all`` after each call."""

    def __init__(self) -> None:
        super().__init__()
        self._asked: list[DrawId | WriteMarkers] = []
        self._draws: dict[Token, Callable[[int, ErrorCode], object]] = {}
        self._markers: dict[Token, _Markers] = {}

    @property
    def waits(self) -> bool:
        """Whether an append, a draw or markers are outstanding."""
        return bool(self.open_count or self._draws or self._markers)

    def draw(self, on_drawn: Callable[[int, ErrorCode], object]) -> None:
        """Request a producer id; ``on_drawn`` gets it with NONE, or -1 with an error."""
        self._last_token += 1
        self._draws[self._last_token] = on_drawn
        self._asked.append(DrawId(self._last_token))

    def write_markers(
        self,
        transactional_id: str,
        prepared: TransactionMetadata,
        partitions: Iterable[TopicPartition],
        on_written: Callable[[], object],
        on_refused: Callable[[Partitions], object],
    ) -> None:
        """Write the outcome of a prepared transaction to these partitions."""
        assert prepared.state.is_prepared
        self._last_token += 1
        self._markers[self._last_token] = _Markers(on_written, on_refused)
        self._asked.append(
            WriteMarkers(
                self._last_token,
                transactional_id,
                prepared.producer_id,
                prepared.producer_epoch,
                prepared.state is TransactionState.PREPARE_COMMIT,
                tuple(sorted(partitions)),
                prepared.client_version,
            )
        )

    def drawn(self, token: Token, producer_id: int, error: ErrorCode) -> None:
        """Report the result of a draw."""
        assert (producer_id >= 0) == (error is ErrorCode.NONE)
        self._draws.pop(token)(producer_id, error)

    def markers_written(self, token: Token) -> None:
        """Every partition has its marker or is deleted."""
        self._markers.pop(token).on_written()

    def markers_refused(self, token: Token, partitions: Partitions) -> None:
        """These partitions refused the marker for good; all others have it or are deleted."""
        self._markers.pop(token).on_refused(partitions)

    def take_all(self) -> TransactionEffects:
        """Return the effects since the last call."""
        asked, self._asked = self._asked, []
        return [*self.take(), *asked]

    def fail_all(self, error: ErrorCode) -> None:
        """Fail all open appends and draws: their outcomes will not be reported."""
        super().fail_all(error)
        while self._draws:
            self._draws.pop(next(iter(self._draws)))(-1, error)
        self._markers.clear()
        self._asked.clear()
        assert not self.waits, "the outcome of what was added meanwhile would not be reported"
