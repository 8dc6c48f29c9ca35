"""The transaction coordinator of this broker: serves transactional ids whose partition it leads.

shards_table.py keeps and finds its shards, as for every coordinator; coordinator/transaction
contains all decisions and state. This file performs the effects of its machines: it obtains
producer ids and sends markers.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinating.internal_topics import TRANSACTIONS_TOPIC
from ottla.broker.coordinating.shards_table import Coordinator
from ottla.coordinator.effects import RequestOrigin
from ottla.coordinator.transaction.effects import DrawId, WriteMarkers
from ottla.coordinator.transaction.requests import Added
from ottla.coordinator.transaction.settings import TransactionSettings
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.list_transactions import ListTransactionsRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from ottla.broker.coordinating.shards import Shard, ShardParts
    from ottla.broker.coordinating.shards_machine import Machine, TransactionMachine
    from ottla.broker.coordinating.txn_markers import MarkerSender
    from ottla.broker.engine.deferred import DeferredAnswer
    from ottla.broker.engine.tasks import Tasks
    from ottla.broker.metadata.metadata import MetadataCache
    from ottla.coordinator.configs.broker_configs import BrokerConfig
    from ottla.coordinator.effects import Token
    from ottla.coordinator.transaction.requests import AddToTransaction
    from ottla.coordinator.transaction.shard import TransactionShard
    from ottla.protocol.ids import TopicPartition

# The part of the internal topic's largest batch that is not the record of a transactional id.
_BATCH_OVERHEAD_BYTES = 1_024
# The version of AddPartitionsToTxn that brokers use.
_THIS_BROKER = RequestOrigin("verification", "", 5)


def transaction_settings(config: BrokerConfig) -> TransactionSettings:
    """The broker's settings for transactions."""
    return TransactionSettings(
        max_timeout_ms=config.transaction_max_timeout_ms,
        expiration_ms=config.transactional_id_expiration_ms,
        expiry_check_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
        timeout_check_interval_ms=(
            config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        ),
        max_record_bytes=config.message_max_bytes - _BATCH_OVERHEAD_BYTES,
    )


def transaction_machines(config: BrokerConfig) -> Callable[[], TransactionMachine]:
    """A factory of empty machines for shards."""
    settings = transaction_settings(config)

    return lambda: _load_shard()(settings)


def _load_shard() -> type[TransactionShard]:
    """Import on first use, with the first led partition, because most brokers never see a
    transaction."""
    from ottla.coordinator.transaction.shard import TransactionShard

    return TransactionShard


class TransactionEffects:
    """Performs the effects of the machines of transactional ids (a ``Performer``)."""

    def __init__(
        self,
        markers: MarkerSender,
        draw_id: Callable[[], Awaitable[int]],
        tasks: Tasks,
    ) -> None:
        self.markers = markers
        self._draw_id = draw_id
        self._tasks = tasks

    def perform(self, shard: Shard[Any], effect: DrawId | WriteMarkers) -> None:
        """Start the effect; the machine gets the outcome, unless it has been discarded."""
        if isinstance(effect, DrawId):
            drawing = self._draw(shard, shard.machine, effect.token)
            self._tasks.spawn("producer id", drawing)
            return
        on_end = partial(_ended, shard, shard.machine, effect.token)
        self.markers.send(shard.machine, shard.leader_epoch, effect, on_end)

    def forget(self, machine: Machine) -> None:
        """The machine's successor, here or on another broker, finds in the log which markers to
        write."""
        self.markers.forget(machine)

    async def _draw(
        self, shard: Shard[TransactionMachine], machine: TransactionMachine, token: Token
    ) -> None:
        producer_id, error = -1, ErrorCode.NONE
        try:
            producer_id = await self._draw_id()
        except KafkaError:
            # Clients retry this code, whatever the reason that the store returns no ids.
            error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        shard.report(machine, partial(machine.drawn, token, producer_id, error))


def _ended(
    shard: Shard[TransactionMachine],
    machine: TransactionMachine,
    token: Token,
    refused: tuple[TopicPartition, ...],
) -> None:
    if refused:
        shard.report(machine, partial(machine.markers_refused, token, refused))
    else:
        shard.report(machine, partial(machine.markers_written, token))


class TransactionCoordinator(Coordinator["TransactionMachine"]):
    """Owned by the server; handlers call it, and ``Partitions`` reports roles to it.

    ``parts.performer`` is ``effects``."""

    def __init__(
        self,
        metadata: MetadataCache,
        make_machine: Callable[[], TransactionMachine],
        parts: ShardParts,
        effects: TransactionEffects,
    ) -> None:
        assert parts.performer is effects, "machines of transactions want more than others"
        super().__init__(TRANSACTIONS_TOPIC, metadata, make_machine, parts)
        self.effects = effects

    def add(self, asked: AddToTransaction) -> DeferredAnswer[Added]:
        """Return the answer to this broker's own question about partitions of a transaction."""

        def refuse(error: ErrorCode) -> Added:
            return Added(dict.fromkeys(asked.partitions, error))

        return self.handle_current(asked.transactional_id, asked, _THIS_BROKER, refuse, None)

    def _list(self, machine: TransactionMachine, request: Any) -> Iterator[Any]:
        # The request also filters by how long transactions have been open.
        now = self.moment()
        return machine.listing(request, now)

    def states(self) -> Iterator[str]:
        """Return the state of each transactional id here, for metrics."""
        for listed in self.listing(ListTransactionsRequest()):
            # Shards that are still loading are skipped.
            if listed is not None and not isinstance(listed, ErrorCode):
                yield listed.transaction_state

    def close(self) -> None:
        """Answer every waiting request and stop writing markers; the broker stops."""
        super().close()
        self.effects.markers.close()
