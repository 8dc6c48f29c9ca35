"""Sends the requests of a transactional producer, once each, and reports the answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.sending import transaction_requests as requests
from ottla.client.sending.coordinator_requests import (
    Ask,
    AskEnd,
    AskGroup,
    AskIdentity,
    AskOffsets,
    AskPartitions,
)
from ottla.client.sending.sequences import ProducerIdentity
from ottla.protocol.errors import ErrorCode, error_code
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ottla.client.cluster.coordinators import Coordinators
    from ottla.client.sending.transaction import ProducerTransaction
    from ottla.client.sending.transaction_verdict import Judgement
    from ottla.client.settings.config import ProducerConfig
    from ottla.protocol.ids import TopicPartition
    from ottla.wire.connection import Connection

    Outcome = tuple[Judgement, ErrorCode]


class TransactionWire:
    """Owned by one ``ProducerTransactions``. Groups have coordinators of their own."""

    def __init__(
        self,
        machine: ProducerTransaction,
        config: ProducerConfig,
        coordinators: Coordinators,
        group_coordinators: Coordinators,
    ) -> None:
        assert config.transactional_id is not None
        self._machine = machine
        self._config = config
        self._transactional_id = config.transactional_id
        self._coordinators = coordinators
        self._group_coordinators = group_coordinators

    def forget(self, ask: Ask) -> None:
        """Look up the coordinator again before the next attempt."""
        if isinstance(ask, AskOffsets):
            self._group_coordinators.forget(ask.group.group_id)
        else:
            self._coordinators.forget(self._transactional_id)

    async def ask(self, ask: Ask) -> Outcome:
        """Send once and report the answer; return its meaning and the code.

        Raises TransportError and UnsupportedByBroker; RequestRefused if there is no coordinator."""
        if isinstance(ask, AskOffsets):
            connection = await self._group_coordinators.connection(ask.group.group_id)
            return await self._ask_offsets(ask, connection)
        connection = await self._coordinators.connection(self._transactional_id)
        match ask:
            case AskIdentity():
                return await self._ask_identity(ask, connection)
            case AskPartitions():
                return await self._ask_partitions(ask, connection)
            case AskGroup():
                return await self._ask_group(ask, connection)
            case AskEnd():
                return await self._ask_end(ask, connection)

    async def _ask_identity(self, ask: AskIdentity, connection: Connection) -> Outcome:
        request = InitProducerIdRequest(
            self._transactional_id, self._config.transaction_timeout_ms, *ask.identity
        )
        response = await connection.send(requests.INIT_PRODUCER_ID, request)
        self._learn(connection)
        code = error_code(response.error_code)
        identity = ProducerIdentity(response.producer_id, response.producer_epoch)
        return self._machine.initialized(code, identity), code

    async def _ask_partitions(self, ask: AskPartitions, connection: Connection) -> Outcome:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._transactional_id,
            v3_and_below_producer_id=self._machine.identity.producer_id,
            v3_and_below_producer_epoch=self._machine.identity.producer_epoch,
            v3_and_below_topics=requests.by_topic(ask.partitions),
        )
        response = await connection.send(requests.ADD_PARTITIONS, request)
        codes = requests.added_partitions(response)
        return self._machine.added(ask, of_all(codes, ask.partitions))

    async def _ask_group(self, ask: AskGroup, connection: Connection) -> Outcome:
        request = AddOffsetsToTxnRequest(
            self._transactional_id, *self._machine.identity, ask.group_id
        )
        response = await connection.send(requests.ADD_OFFSETS, request)
        return self._machine.added(ask, [error_code(response.error_code)])

    async def _ask_offsets(self, ask: AskOffsets, connection: Connection) -> Outcome:
        api = requests.COMMIT_OFFSETS
        if self._machine.parts.is_implicit:
            api = requests.COMMIT_OFFSETS_IMPLICIT
        version = connection.version_of(api)
        requests.check_member_version(connection, version, ask)
        request = requests.offsets_request(self._transactional_id, self._machine.identity, ask)
        response = await connection.send(api, request, version=version)
        codes = requests.committed_offsets(response)
        return self._machine.added(ask, of_all(codes, ask.offsets))

    async def _ask_end(self, ask: AskEnd, connection: Connection) -> Outcome:
        request = EndTxnRequest(self._transactional_id, *self._machine.identity, ask.is_commit)
        api = requests.END_WITH_EPOCH if self._machine.parts.is_implicit else requests.END
        response = await connection.send(api, request)
        self._learn(connection)
        code = error_code(response.error_code)
        identity = ProducerIdentity(response.producer_id, response.producer_epoch)
        return self._machine.ended(ask, code, identity), code

    def _learn(self, connection: Connection) -> None:
        self._machine.level = requests.protocol_level(connection)
        self._machine.can_renew = requests.can_renew(connection)


def of_all(
    codes: Mapping[TopicPartition, ErrorCode], wanted: Iterable[TopicPartition]
) -> list[ErrorCode]:
    """Return a code for each wanted partition, NETWORK_EXCEPTION if the answer has none."""
    return [codes.get(where, ErrorCode.NETWORK_EXCEPTION) for where in wanted]
