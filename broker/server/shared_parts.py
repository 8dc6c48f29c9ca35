"""What nearly every part of a broker takes: its identity, ports, metadata, timers and tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.engine.context import EventTurn
from ottla.broker.engine.purgatory import Purgatory
from ottla.broker.engine.tasks import Tasks
from ottla.broker.engine.timing_wheel import TimingWheel
from ottla.broker.metadata.metadata import MetadataCache
from ottla.broker.partitions.read_barriers import ReadBarriers
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.coordinator.configs.broker_configs import BrokerConfig
    from ottla.coordinator.store.store import MetadataSession
    from ottla.protocol.ports import Ports


class SharedParts(NamedTuple):
    """Built first; the functions that build the other parts take it."""

    node_id: int
    ports: Ports
    config: BrokerConfig
    # Raises KafkaError while the broker has no session with the metadata store.
    session: Callable[[], MetadataSession]
    # Tasks that end last, after the session, and chores, which end before the logs are closed.
    tasks: Tasks
    chores: Tasks
    metadata: MetadataCache
    turn: EventTurn
    waiting: Purgatory
    wheel: TimingWheel
    barriers: ReadBarriers


def build_shared_parts(
    ports: Ports,
    config: BrokerConfig,
    node_id: int,
    session: Callable[[], MetadataSession],
    on_crash: Callable[[str, BaseException], object],
) -> SharedParts:
    """Build the record. ``on_crash`` hears of each task that dies of an unexpected error."""
    clock = ports.clock
    wheel = TimingWheel(clock)
    turn = EventTurn()
    waiting = Purgatory(wheel, turn.defer)
    return SharedParts(
        node_id=node_id,
        ports=ports,
        config=config,
        session=session,
        tasks=Tasks(on_crash),
        chores=Tasks(on_crash),
        metadata=MetadataCache(clock),
        turn=turn,
        waiting=waiting,
        wheel=wheel,
        barriers=ReadBarriers(waiting, clock),
    )
