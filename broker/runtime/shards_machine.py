"""What a shard runs: the seam between its shell and the machine that decides in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ottla.coordinator.effects import (
        Caller,
        Effects,
        LogRecord,
        Moment,
        Ticket,
        Token,
        Writer,
    )
    from ottla.coordinator.group.timeline import Event
    from ottla.protocol.errors import ErrorCode
    from ottla.protocol.messages.list_groups import ListedGroup, ListGroupsRequest


class Machine(Protocol):
    """What runs in a shard: decisions only (see coordinator/effects.py)."""

    @property
    def must_reload(self) -> bool: ...

    def limit_batches(self, limit: Callable[[], int]) -> None: ...

    def replay(self, record: LogRecord, writer: Writer, moment: Moment) -> object: ...

    def replay_marker(
        self, producer_id: int, producer_epoch: int, committed: bool, moment: Moment
    ) -> object: ...

    def on_loaded(self, moment: Moment) -> Effects: ...

    def handle(self, request: Any, caller: Caller, ticket: Ticket, moment: Moment) -> Effects: ...

    def committed(self, token: Token, moment: Moment) -> Effects: ...

    def failed(self, token: Token, error: ErrorCode, moment: Moment) -> Effects: ...

    def overdue(self, token: Token, moment: Moment) -> Effects: ...

    def next_deadline_ms(self) -> float | None: ...

    def on_deadline(self, moment: Moment) -> Effects: ...

    def on_topics_changed(self, moment: Moment) -> Effects: ...

    def unload(self, error: ErrorCode) -> Effects: ...

    def listing(self, request: ListGroupsRequest) -> Iterator[ListedGroup | None]: ...

    def timeline(self, group_id: str) -> list[Event]: ...


class MachineReplay:
    """The machine while it loads; asks the time once for each batch."""

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
