"""The interface between a shard and the machine that decides in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ottla.coordinator.effects import LogRecord, Moment, RequestOrigin, Ticket, Token, Writer
    from ottla.coordinator.group.common.timeline import Event
    from ottla.protocol.errors import ErrorCode
    from ottla.protocol.ids import TopicPartition


class Machine(Protocol):
    """The state machine of a shard: it only decides (see coordinator/effects.py).

    It returns an ``Answer``, an ``Append``, or another effect that its coordinator's ``Performer``
    performs."""

    @property
    def must_reload(self) -> bool: ...

    def limit_batches(self, limit: Callable[[], int]) -> None: ...

    def replay(self, record: LogRecord, writer: Writer, moment: Moment) -> object: ...

    def replay_marker(
        self, producer_id: int, producer_epoch: int, committed: bool, moment: Moment
    ) -> object: ...

    def on_loaded(self, moment: Moment) -> Sequence[object]: ...

    def handle(
        self, request: Any, caller: RequestOrigin, ticket: Ticket, moment: Moment
    ) -> Sequence[object]: ...

    def committed(self, token: Token, moment: Moment) -> Sequence[object]: ...

    def failed(self, token: Token, error: ErrorCode, moment: Moment) -> Sequence[object]: ...

    def overdue(self, token: Token, moment: Moment) -> Sequence[object]: ...

    def next_deadline_ms(self) -> float | None: ...

    def on_deadline(self, moment: Moment) -> Sequence[object]: ...

    def on_topics_changed(self, moment: Moment) -> Sequence[object]: ...

    def unload(self, error: ErrorCode) -> Sequence[object]: ...

    def listing(self, request: Any, /) -> Iterator[Any]: ...


M = TypeVar("M", bound=Machine)


class GroupMachine(Machine, Protocol):
    """The groups of one partition."""

    def timeline(self, group_id: str) -> list[Event]: ...


class TransactionMachine(Machine, Protocol):
    """The transactional ids of one partition (see coordinator/transaction/effects.py)."""

    def drawn(
        self, token: Token, producer_id: int, error: ErrorCode, moment: Moment
    ) -> Sequence[object]: ...

    def markers_written(self, token: Token, moment: Moment) -> Sequence[object]: ...

    def markers_refused(
        self, token: Token, partitions: tuple[TopicPartition, ...], moment: Moment
    ) -> Sequence[object]: ...

    def listing(self, request: Any, moment: Moment | None = None, /) -> Iterator[Any]: ...


class MachineReplay:
    """Loads the machine; it reads the clock once per batch."""

    def __init__(self, machine: Machine, moment: Callable[[], Moment]) -> None:
        self._machine = machine
        self._moment = moment

    def replay_all(self, records: Iterable[LogRecord], writer: Writer) -> None:
        moment = self._moment()
        replay = self._machine.replay
        for record in records:
            replay(record, writer, moment)

    def replay_marker(self, producer_id: int, producer_epoch: int, committed: bool) -> None:
        self._machine.replay_marker(producer_id, producer_epoch, committed, self._moment())
