"""The outbox of a shard that asks for producer ids and markers, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.coordinator.outbox import Outbox
from ottla.coordinator.transaction.effects import DrawId, WriteMarkers
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.coordinator.effects import Token
    from ottla.coordinator.transaction.effects import TransactionEffects
    from ottla.coordinator.transaction.metadata import TransactionMetadata


class _Markers(NamedTuple):
    on_written: Callable[[], object]
    on_fenced: Callable[[], object]


class TransactionOutbox(Outbox):
    """One per shard; emptied by ``take_all`` after each call into the machine."""

    def __init__(self) -> None:
        super().__init__()
        self._asked: list[DrawId | WriteMarkers] = []
        self._draws: dict[Token, Callable[[int, ErrorCode], object]] = {}
        self._markers: dict[Token, _Markers] = {}

    @property
    def waits(self) -> bool:
        """Whether anything that was asked for is still to come."""
        return bool(self.open_count or self._draws or self._markers)

    def draw(self, on_drawn: Callable[[int, ErrorCode], object]) -> None:
        """Ask for a producer id; it comes with NONE, or -1 with an error."""
        self._last_token += 1
        self._draws[self._last_token] = on_drawn
        self._asked.append(DrawId(self._last_token))

    def write_markers(
        self,
        transactional_id: str,
        prepared: TransactionMetadata,
        is_commit: bool,
        on_written: Callable[[], object],
        on_fenced: Callable[[], object],
    ) -> None:
        """Tell the partitions of a prepared transaction how it ends."""
        assert prepared.state.is_prepared
        assert prepared.partitions
        self._last_token += 1
        self._markers[self._last_token] = _Markers(on_written, on_fenced)
        self._asked.append(
            WriteMarkers(
                self._last_token,
                transactional_id,
                prepared.producer_id,
                prepared.producer_epoch,
                is_commit,
                tuple(sorted(prepared.partitions)),
                prepared.client_version,
            )
        )

    def drawn(self, token: Token, producer_id: int, error: ErrorCode) -> None:
        """What came of a draw."""
        assert (producer_id >= 0) == (error is ErrorCode.NONE)
        self._draws.pop(token)(producer_id, error)

    def markers_written(self, token: Token) -> None:
        """Every partition has its marker, or is gone."""
        self._markers.pop(token).on_written()

    def markers_fenced(self, token: Token) -> None:
        """A partition has refused the marker for good."""
        self._markers.pop(token).on_fenced()

    def take_all(self) -> TransactionEffects:
        """What has gathered since the last time."""
        asked, self._asked = self._asked, []
        return [*self.take(), *asked]

    def fail_all(self, error: ErrorCode) -> None:
        """Nobody will say any more what became of anything; whoever waits is to be told."""
        super().fail_all(error)
        while self._draws:
            self._draws.pop(next(iter(self._draws)))(-1, error)
        self._markers.clear()
        self._asked.clear()
