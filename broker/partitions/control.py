"""Applies the controller's requests to this broker.

The entry point for requests from the network and from a controller in this process. It fences them
by broker epoch (C-09); the code that applies them fences by controller epoch.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from ottla.coordinator.controller.names import find_name_fault
from ottla.coordinator.metadata.changes import FULL_UPDATE
from ottla.coordinator.store import paths
from ottla.coordinator.store.store import NoNode, StoreError
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from ottla.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from ottla.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.broker.engine.tasks import Tasks
    from ottla.broker.metadata.config_watch import ConfigWatch
    from ottla.broker.metadata.metadata import MetadataCache
    from ottla.coordinator.metadata.image import MetadataImage
    from ottla.coordinator.store.store import MetadataSession
    from ottla.protocol.messages.leader_and_isr import LeaderAndIsrTopicState
    from ottla.protocol.messages.update_metadata import UpdateMetadataTopicState

ControlRequest = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
ControlResponse = LeaderAndIsrResponse | UpdateMetadataResponse | StopReplicaResponse


class PartitionControl(Protocol):
    """Applies the controller's requests to this broker's replicas."""

    async def apply_leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse: ...

    async def apply_stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse: ...

    async def drop_moved(self, image: MetadataImage) -> None:
        """Delete replicas that the complete image assigns to other brokers."""


class ControlChannel(Protocol):
    """How the controller reaches brokers, including its own.

    The user sets ``on_lost``; it is called with the id of a broker whose connection broke."""

    on_lost: Callable[[int], object]

    async def send(self, node_id: int, request: ControlRequest) -> ControlResponse:
        """Return the broker's answer. Raises OSError, KafkaError or ClientError without one: send
        again."""

    async def reach(self, node_id: int) -> None:
        """Connect to the broker. Raises as above."""


class ControllerClaim(NamedTuple):
    """The sender of a controller request, as the request names it."""

    node_id: int
    epoch: int


class ControlReceiver:
    """Owned by the server. ``broker_epoch`` is set when the broker has registered."""

    def __init__(
        self,
        metadata: MetadataCache,
        partitions: PartitionControl,
        configs: ConfigWatch,
        tasks: Tasks,
    ) -> None:
        self._metadata = metadata
        self._partitions = partitions
        self._configs = configs
        self._tasks = tasks
        # One at a time, in the order sent (C-11): a role change may wait for the disk.
        self._lock = asyncio.Lock()
        self.broker_epoch = -1
        # Requests for this or an earlier registration are too late.
        self._ended_epoch = -1
        self._is_over = False
        # The controller that the metadata store last confirmed.
        self._confirmed: ControllerClaim | None = None

    async def confirm(self, claim: ControllerClaim, session: Callable[[], MetadataSession]) -> bool:
        """Check in the metadata store that the sender of a request is the controller.

        It reads the store once per controller epoch. Requests of an epoch before the confirmed one
        are fenced later. Raises KafkaError if the store cannot be read: the controller must
        resend."""
        known = self._confirmed
        if known is not None and (claim == known or claim.epoch < known.epoch):
            return True
        try:
            store = session()
            # The store server that this broker is connected to may lag behind.
            await store.sync()
            number = paths.parse_number((await store.get(paths.CONTROLLER_EPOCH)).data)
            holder = paths.parse_controller((await store.get(paths.CONTROLLER)).data)
        except NoNode:
            return False
        except StoreError as error:
            text = f"the metadata store does not say who the controller is: {error}"
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, text) from error
        if (holder, number) != claim:
            return False
        self._confirmed = claim
        return True

    def on_session(self) -> None:
        """A new store session has begun: the registration of the last one is void.

        The controller may have withdrawn earlier orders since, so they must not count as roles
        given in the new session (R-19, C-09)."""
        self._ended_epoch = self.broker_epoch

    async def apply(self, request: ControlRequest) -> ControlResponse:
        """Apply one request of the controller. Raises KafkaError: the controller must resend it.

        It completes even if the caller is cancelled, as a resigning controller is: a half-applied
        request would conflict with the next controller's request for the same files (P-04)."""
        answer: asyncio.Future[ControlResponse] = asyncio.get_running_loop().create_future()
        self._tasks.spawn("request of the controller", self._answer(request, answer))
        return await answer

    async def finish(self) -> None:
        """Refuse further requests and wait for those in progress: the broker stops, and later roles
        would be served from logs that are being closed."""
        self._is_over = True
        async with self._lock:
            pass

    async def _answer(
        self, request: ControlRequest, answer: asyncio.Future[ControlResponse]
    ) -> None:
        try:
            given = await self._carry_out(request)
        except KafkaError as error:
            if not answer.done():
                answer.set_exception(error)
        else:
            if not answer.done():
                answer.set_result(given)
        finally:
            # Cancelled by the broker's stop, or failed because of a bug.
            answer.cancel()

    async def _carry_out(self, request: ControlRequest) -> ControlResponse:
        async with self._lock:
            if self._is_over:
                raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "the broker stops")
            match request:
                case LeaderAndIsrRequest():
                    return await self._leader_and_isr(request)
                case StopReplicaRequest():
                    if self._is_stale(request.broker_epoch):
                        return StopReplicaResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
                    return await self._partitions.apply_stop_replica(request)
                case UpdateMetadataRequest():
                    if self._is_stale(request.broker_epoch):
                        return UpdateMetadataResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
                    await self._learn_settings(request.topic_states)
                    answer = self._metadata.apply(request)
                    if request.type == FULL_UPDATE and answer.error_code == ErrorCode.NONE:
                        await self._partitions.drop_moved(self._metadata.image)
                    return answer

    async def _leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        if self._is_stale(request.broker_epoch):
            return LeaderAndIsrResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        if request.controller_epoch < self._metadata.image.controller_epoch:
            return LeaderAndIsrResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)
        await self._learn_settings(request.topic_states)
        if self._is_stale(request.broker_epoch):
            # Another session has begun in between.
            return LeaderAndIsrResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        return await self._partitions.apply_leader_and_isr(request)

    async def _learn_settings(
        self, topics: Sequence[LeaderAndIsrTopicState | UpdateMetadataTopicState]
    ) -> None:
        """Read the settings of topics that are new to this broker: no announcement names them, and
        a log must not be opened without its settings."""
        names = self._metadata.image.names
        await self._configs.refresh_topics(
            topic.topic_name
            for topic in topics
            if topic.topic_id not in names and find_name_fault(topic.topic_name) is None
        )

    def _is_stale(self, broker_epoch: int) -> bool:
        """Whether the request was meant for an earlier incarnation. A newer epoch than this
        broker's is valid: the broker has not learned it yet."""
        return -1 < broker_epoch < max(self.broker_epoch, self._ended_epoch + 1)
