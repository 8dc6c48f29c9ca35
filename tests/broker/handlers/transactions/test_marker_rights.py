"""Who may end transactions by WriteTxnMarkers: operators, and brokers that are registered."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from ottla.broker.authorization.authorizer import AclAuthorizer
from ottla.broker.authorization.index import AclIndex
from ottla.broker.engine.context import RequestContext
from ottla.broker.handlers.transactions import txn_markers
from ottla.protocol.acls import (
    CLUSTER_NAME,
    AclPattern,
    AclResourceType,
    AclRule,
    Operation,
    Permission,
)
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.support.unconnected import UnconnectedPeer

if TYPE_CHECKING:
    from ottla.broker.handlers.services import Services

CLUSTER = AclPattern(AclResourceType.CLUSTER, CLUSTER_NAME)
REQUEST = WriteTxnMarkersRequest(
    markers=[WritableTxnMarker(topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])])]
)


def _is_allowed(user: str, operation: Operation, principals: str) -> bool:
    authorizer = AclAuthorizer(frozenset(), open_without_rules=False, tell=lambda *_: True)
    rule = AclRule(CLUSTER, f"User:{user}", "*", operation, Permission.ALLOW)
    authorizer.take(AclIndex.of([rule]))
    written: list[object] = []
    services = SimpleNamespace(
        authorizer=authorizer,
        config=SimpleNamespace(broker_principals=principals),
        metadata=SimpleNamespace(image=SimpleNamespace(brokers={1: None, 2: None})),
        marker_writer=SimpleNamespace(write=written.append),
    )
    peer = UnconnectedPeer()
    peer.principal = f"User:{user}"
    context = RequestContext(cast("Any", peer), ApiKey.WRITE_TXN_MARKERS, 1, 1, "", 0.0)
    answer: Any = txn_markers.handle(cast("Services", services), context, REQUEST)
    if answer is None:
        return written == [REQUEST]
    error = answer.markers[0].topics[0].partitions[0].error_code
    assert error == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert not written
    return False


@pytest.mark.parametrize(
    ("user", "operation", "principals", "is_allowed"),
    [
        ("broker-2", Operation.CLUSTER_ACTION, "User:broker-{id}", True),
        ("broker-3", Operation.CLUSTER_ACTION, "User:broker-{id}", False),
        ("other", Operation.CLUSTER_ACTION, "User:broker-{id}", False),
        ("other", Operation.CLUSTER_ACTION, "", True),
        ("operator", Operation.ALTER, "User:broker-{id}", True),
        ("operator", Operation.DESCRIBE, "User:broker-{id}", False),
    ],
)
def test_only_operators_and_registered_brokers_end_transactions(
    user: str, operation: Operation, principals: str, is_allowed: bool
) -> None:
    """The login of a broker that was removed must not end the transactions of clients."""
    assert _is_allowed(user, operation, principals) is is_allowed
