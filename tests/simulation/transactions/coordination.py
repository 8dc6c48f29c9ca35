"""A simulated client's requests to the transaction coordinator, in versions of one age.

Old clients add partitions by a request of their own and keep one epoch (KIP-98); new ones let the
partition's leader add them, and get another epoch with each end (KIP-890).
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.simulation.clients.client import RETRIABLE
from tests.simulation.clients.wire import Gone

if TYPE_CHECKING:
    from tests.simulation.cluster.client import ClusterClient
    from tests.simulation.world.random import SimRandom

# With these the outcome is open, or nothing has happened: retry, perhaps with another broker.
COME_AGAIN = RETRIABLE | {ErrorCode.NOT_COORDINATOR, ErrorCode.CONCURRENT_TRANSACTIONS}
FENCED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})
# The transaction cannot be committed any more.
DOOMED = frozenset(
    {
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    }
)


class CoordinatorKind(Enum):
    """Whose coordinator is looked for."""

    GROUP = 0
    TRANSACTION = 1


class TransactionVersions(NamedTuple):
    """Of one client."""

    find_coordinator: int
    init: int
    add_partitions: int
    add_offsets: int
    produce: int
    commit_offsets: int
    end: int
    fetch_offsets: int

    @property
    def is_second(self) -> bool:
        """Whether it speaks version 2 of the protocol."""
        return self.end >= 5

    @staticmethod
    def draw(random: SimRandom, *, second: bool) -> TransactionVersions:
        """A client of some age."""

        def pick(first: int, last: int) -> int:
            return first + random.below(last - first + 1)

        return TransactionVersions(
            find_coordinator=pick(1, 3),
            init=pick(3, 5) if second else pick(0, 4),
            add_partitions=pick(0, 3),
            add_offsets=pick(0, 4),
            produce=12 if second else pick(3, 11),
            commit_offsets=5 if second else pick(0, 4),
            end=5 if second else pick(0, 4),
            fetch_offsets=7,
        )


class Coordinators:
    """Where this client believes them to be."""

    def __init__(self, client: ClusterClient, version: int, forgets: float = 0.0) -> None:
        self._client = client
        self._version = version
        self._forgets = forgets
        self._known: dict[tuple[CoordinatorKind, str], int] = {}

    async def ask(
        self, kind: CoordinatorKind, key: str, message: object, api_key: ApiKey, api_version: int
    ) -> Any | None:
        """One try; None when the outcome is unknown, or no broker could be asked."""
        if self._forgets and self._client.random.chance(self._forgets):
            self.forget(kind, key)
            self._client.disconnect()
        try:
            node_id = await self.find(kind, key)
            if node_id is None:
                return None
            wire = await self._client.wire_to(node_id)
            return await wire.call(message, api_key, api_version)
        except Gone:
            self.forget(kind, key)
            return None

    def forget(self, kind: CoordinatorKind, key: str) -> None:
        """Forget a coordinator, which may have moved."""
        self._known.pop((kind, key), None)

    async def find(self, kind: CoordinatorKind, key: str) -> int | None:
        """Id of the coordinator, None if it is unknown. Raises Gone."""
        known = self._known.get((kind, key))
        if known is not None:
            return known
        client = self._client
        try:
            await client.refresh([])
            request = FindCoordinatorRequest(key=key, key_type=kind.value)
            wire = await client.wire()
            answer = await wire.call(request, ApiKey.FIND_COORDINATOR, self._version)
        except Gone:
            client.disconnect()
            raise
        if answer.error_code != ErrorCode.NONE:
            client.disconnect()
            return None
        self._known[kind, key] = answer.node_id
        return int(answer.node_id)
