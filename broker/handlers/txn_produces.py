"""The transactional batches of a produce request: may this producer write in this transaction?

A batch whose transaction is open in its partition is written like any other. For the others the
coordinator is asked: whether they are part of the transaction, or (from version 12 on, where each
transaction has an epoch of its own) to make them so (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinating.txn_partition import (
    begin_verification,
    conclude,
    coordinator_epoch,
    note_owner,
)
from ottla.protocol.acls import AclResourceType, Operation
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services
    from ottla.broker.partitions.produces import ProducePart

ADDING_VERSION = 12
_ABORTABLE_VERSION = 11
_NONE = ErrorCode.NONE
# Codes that producers do not expect here, and that pass; this one they all repeat, and without
# asking for the leader again.
_PASSING = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
    }
)


def begin_all(
    services: Services,
    context: RequestContext,
    transactional_id: str | None,
    parts: Sequence[ProducePart],
) -> None:
    """Refuse what must not be written, and put a guard where the coordinator must be asked."""
    error = _flaw(services, context, transactional_id, parts)
    for part in parts:
        if error is not _NONE or transactional_id is None:
            part.refuse(error)
        else:
            _begin(services, context, transactional_id, part)


def _flaw(
    services: Services,
    context: RequestContext,
    transactional_id: str | None,
    parts: Iterable[ProducePart],
) -> ErrorCode:
    """Why none of them may be written, if so (hazard T-26)."""
    if transactional_id is None or not services.authorizer.is_allowed(
        context, Operation.WRITE, AclResourceType.TRANSACTIONAL_ID, transactional_id
    ):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if not transactional_id:
        return ErrorCode.INVALID_REQUEST
    batches = [part.plan.batch for part in parts]
    if len({(one.producer_id, one.producer_epoch) for one in batches if one is not None}) > 1:
        # One transactional id has one producer.
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    return _NONE


def _begin(
    services: Services, context: RequestContext, transactional_id: str, part: ProducePart
) -> None:
    batch = part.plan.batch
    assert batch is not None
    adds = context.api_version >= ADDING_VERSION
    begun = begin_verification(
        part.partition,
        batch.producer_id,
        batch.producer_epoch,
        services.ports.clock.now_ms(),
        base_sequence=batch.base_sequence,
        adds=adds,
        transactional_id=transactional_id,
    )
    if isinstance(begun, ErrorCode):
        part.refuse(begun)
    elif begun is not None:
        if adds or services.settings.verifies_transactions:
            part.guard = begun
        else:
            begun.confirm()


async def verify_all(
    services: Services,
    context: RequestContext,
    transactional_id: str | None,
    parts: Sequence[ProducePart],
) -> None:
    """Ask the coordinator about those with a guard; what it does not allow is refused. They are
    to be written in the step in which this returns: a guard may fall in the next one."""
    doubtful = [part for part in parts if part.guard is not None and part.plan.batch is not None]
    if not doubtful:
        return
    first = doubtful[0].plan.batch
    assert first is not None
    assert transactional_id is not None
    adds = context.api_version >= ADDING_VERSION
    errors = await services.verification.ask(
        transactional_id,
        first.producer_id,
        first.producer_epoch,
        [part.partition.partition for part in doubtful],
        adds=adds,
        known_epoch=max(coordinator_epoch(part.partition, first.producer_id) for part in doubtful),
    )
    for part in doubtful:
        assert part.guard is not None
        assert part.plan.batch is not None
        answer = errors[part.partition.partition]
        error = conclude(part.partition, part.plan.batch, part.guard, answer)
        if error is not _NONE:
            told = as_told(error, context.api_version)
            part.refuse(told, None if told is error else f"the coordinator says: {error.name}")
        else:
            now_ms = services.ports.clock.now_ms()
            note_owner(part.partition, part.plan.batch, transactional_id, now_ms)


def as_told(error: ErrorCode, api_version: int) -> ErrorCode:
    """What a producer is told of a coordinator's verdict."""
    if error in _PASSING:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if error is ErrorCode.CONCURRENT_TRANSACTIONS and api_version < ADDING_VERSION:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and api_version < _ABORTABLE_VERSION:
        return ErrorCode.INVALID_TXN_STATE
    return error
