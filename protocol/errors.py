"""The error codes of the wire, as one table, and the only four exceptions of this code base.

Handlers and machines return an ``ErrorCode``. A code must not be sent to a peer whose version of
the API predates it; the substitutions live with the API handlers.
"""

from __future__ import annotations

from enum import IntEnum

_FINAL, _RETRY, _REFRESH = range(3)


class ErrorCode(IntEnum):
    """Kafka's codes by Kafka's names, each with what a client should do about it.

    ``retriable``: the same request may succeed later. ``refresh_metadata``: and the client should
    first ask again who leads. ``text``: one phrase for logs and for error message fields."""

    _value_: int
    retriable: bool
    refresh_metadata: bool
    text: str

    # Defaults only so that a type checker accepts a look-up, ErrorCode(6).
    def __new__(cls, code: int, retry: int = _FINAL, text: str = "") -> ErrorCode:
        member = int.__new__(cls, code)
        member._value_ = code
        member.retriable = retry != _FINAL
        member.refresh_metadata = retry == _REFRESH
        member.text = text
        return member

    UNKNOWN_SERVER_ERROR = -1, _FINAL, "The broker failed in a way that has no code of its own"
    NONE = 0, _FINAL, "No error"
    OFFSET_OUT_OF_RANGE = 1, _FINAL, "The offset lies outside of what the log holds"
    CORRUPT_MESSAGE = 2, _RETRY, "The batch is damaged: checksum, length or structure"
    UNKNOWN_TOPIC_OR_PARTITION = 3, _REFRESH, "This broker knows no such topic or partition"
    INVALID_FETCH_SIZE = 4, _FINAL, "The fetch size cannot be used"
    LEADER_NOT_AVAILABLE = 5, _REFRESH, "The partition has no leader at the moment"
    NOT_LEADER_OR_FOLLOWER = 6, _REFRESH, "The partition is led elsewhere"
    REQUEST_TIMED_OUT = 7, _RETRY, "Not done in time; whether it will be is unknown"
    BROKER_NOT_AVAILABLE = 8, _FINAL, "The broker is not running"
    REPLICA_NOT_AVAILABLE = 9, _REFRESH, "The replica cannot serve at the moment"
    MESSAGE_TOO_LARGE = 10, _FINAL, "The batch is larger than the topic accepts"
    STALE_CONTROLLER_EPOCH = 11, _FINAL, "A later controller has been elected"
    OFFSET_METADATA_TOO_LARGE = 12, _FINAL, "The text beside the committed offset is too long"
    NETWORK_EXCEPTION = 13, _REFRESH, "The connection went before the answer came"
    COORDINATOR_LOAD_IN_PROGRESS = 14, _RETRY, "The coordinator is still reading its state"
    COORDINATOR_NOT_AVAILABLE = 15, _RETRY, "There is no coordinator at the moment"
    NOT_COORDINATOR = 16, _RETRY, "Another broker is the coordinator"
    INVALID_TOPIC_EXCEPTION = 17, _FINAL, "The topic name is illegal or reserved"
    RECORD_LIST_TOO_LARGE = 18, _FINAL, "The batch does not fit into a segment"
    NOT_ENOUGH_REPLICAS = 19, _RETRY, "Too few replicas in sync; nothing was written"
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, _RETRY, "Written, but too few replicas stayed in sync"
    INVALID_REQUIRED_ACKS = 21, _FINAL, "acks must be -1, 0 or 1"
    ILLEGAL_GENERATION = 22, _FINAL, "The group has moved to another generation"
    INCONSISTENT_GROUP_PROTOCOL = 23, _FINAL, "The member shares no protocol with the group"
    INVALID_GROUP_ID = 24, _FINAL, "The group id is illegal"
    UNKNOWN_MEMBER_ID = 25, _FINAL, "The group has no such member"
    INVALID_SESSION_TIMEOUT = 26, _FINAL, "The session timeout is outside the allowed range"
    REBALANCE_IN_PROGRESS = 27, _FINAL, "The group is rebalancing; join again"
    INVALID_COMMIT_OFFSET_SIZE = 28, _FINAL, "The offsets are too large to be stored"
    TOPIC_AUTHORIZATION_FAILED = 29, _FINAL, "The principal may not do this to the topic"
    GROUP_AUTHORIZATION_FAILED = 30, _FINAL, "The principal may not do this to the group"
    CLUSTER_AUTHORIZATION_FAILED = 31, _FINAL, "The principal may not do this to the cluster"
    INVALID_TIMESTAMP = 32, _FINAL, "A timestamp is out of bounds or of the wrong type"
    UNSUPPORTED_SASL_MECHANISM = 33, _FINAL, "The SASL mechanism is not enabled"
    ILLEGAL_SASL_STATE = 34, _FINAL, "Out of place in the SASL exchange"
    UNSUPPORTED_VERSION = 35, _FINAL, "This version of the API is not served"
    TOPIC_ALREADY_EXISTS = 36, _FINAL, "A topic of this name exists"
    INVALID_PARTITIONS = 37, _FINAL, "The number of partitions cannot be used"
    INVALID_REPLICATION_FACTOR = (
        38,
        _FINAL,
        "The replication factor is below 1 or too high",
    )
    INVALID_REPLICA_ASSIGNMENT = 39, _FINAL, "The replica assignment contradicts itself"
    INVALID_CONFIG = 40, _FINAL, "The configuration was refused"
    NOT_CONTROLLER = 41, _RETRY, "Another broker is the controller"
    INVALID_REQUEST = 42, _FINAL, "The request contradicts itself"
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, _FINAL, "The stored records are too old for this"
    POLICY_VIOLATION = 44, _FINAL, "A policy of the cluster forbids it"
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, _FINAL, "Batches of this producer are missing in between"
    DUPLICATE_SEQUENCE_NUMBER = 46, _FINAL, "The batch was appended long ago"
    INVALID_PRODUCER_EPOCH = 47, _FINAL, "A later incarnation of this producer exists"
    INVALID_TXN_STATE = 48, _FINAL, "The transaction's state does not allow it"
    INVALID_PRODUCER_ID_MAPPING = 49, _FINAL, "The transactional id has another producer id"
    INVALID_TRANSACTION_TIMEOUT = 50, _FINAL, "The transaction timeout is longer than allowed"
    CONCURRENT_TRANSACTIONS = 51, _RETRY, "The transaction before is still being completed"
    TRANSACTION_COORDINATOR_FENCED = 52, _FINAL, "A later transaction coordinator exists"
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, _FINAL, "The principal may not use this id"
    SECURITY_DISABLED = 54, _FINAL, "No authorizer is configured"
    OPERATION_NOT_ATTEMPTED = 55, _FINAL, "Left undone because another part failed"
    KAFKA_STORAGE_ERROR = 56, _REFRESH, "The disk under the partition has failed"
    LOG_DIR_NOT_FOUND = 57, _FINAL, "This log directory is not configured"
    SASL_AUTHENTICATION_FAILED = 58, _FINAL, "The credentials were refused"
    UNKNOWN_PRODUCER_ID = 59, _FINAL, "The producer's state has expired"
    REASSIGNMENT_IN_PROGRESS = 60, _FINAL, "The partition is being moved already"
    DELEGATION_TOKEN_AUTH_DISABLED = 61, _FINAL, "Delegation tokens are not enabled"
    DELEGATION_TOKEN_NOT_FOUND = 62, _FINAL, "There is no such delegation token"
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, _FINAL, "The token belongs to another principal"
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, _FINAL, "Tokens need a stronger authentication"
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, _FINAL, "The principal may not do this to the token"
    DELEGATION_TOKEN_EXPIRED = 66, _FINAL, "The delegation token has expired"
    INVALID_PRINCIPAL_TYPE = 67, _FINAL, "Principals of this type are not supported"
    NON_EMPTY_GROUP = 68, _FINAL, "The group still has members"
    GROUP_ID_NOT_FOUND = 69, _FINAL, "There is no such group"
    FETCH_SESSION_ID_NOT_FOUND = 70, _RETRY, "The fetch session is gone; start a full fetch"
    INVALID_FETCH_SESSION_EPOCH = 71, _RETRY, "The fetch session is at another epoch"
    LISTENER_NOT_FOUND = 72, _REFRESH, "The leader is not reachable over this listener"
    TOPIC_DELETION_DISABLED = 73, _FINAL, "Deleting topics is switched off"
    FENCED_LEADER_EPOCH = 74, _REFRESH, "The sender knows an older leader epoch"
    UNKNOWN_LEADER_EPOCH = 75, _RETRY, "The sender knows a newer leader epoch"
    UNSUPPORTED_COMPRESSION_TYPE = 76, _FINAL, "This compression is not possible here"
    STALE_BROKER_EPOCH = 77, _FINAL, "The broker has registered again since"
    OFFSET_NOT_AVAILABLE = 78, _RETRY, "The new leader does not know the high watermark yet"
    MEMBER_ID_REQUIRED = 79, _FINAL, "Join again with the member id given here"
    PREFERRED_LEADER_NOT_AVAILABLE = 80, _REFRESH, "The preferred leader cannot lead now"
    GROUP_MAX_SIZE_REACHED = 81, _FINAL, "The group is full"
    FENCED_INSTANCE_ID = 82, _FINAL, "Another member has taken this instance id"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, _REFRESH, "No replica may lead now"
    ELECTION_NOT_NEEDED = 84, _REFRESH, "The partition has the leader it should have"
    NO_REASSIGNMENT_IN_PROGRESS = 85, _FINAL, "The partition is not being moved"
    GROUP_SUBSCRIBED_TO_TOPIC = 86, _FINAL, "The group still reads this topic"
    INVALID_RECORD = 87, _FINAL, "A record was refused"
    UNSTABLE_OFFSET_COMMIT = 88, _RETRY, "A transaction still holds these offsets back"
    THROTTLING_QUOTA_EXCEEDED = 89, _RETRY, "The quota for changes is used up"
    PRODUCER_FENCED = 90, _FINAL, "A later producer uses this transactional id"
    RESOURCE_NOT_FOUND = 91, _FINAL, "There is no such resource"
    DUPLICATE_RESOURCE = 92, _FINAL, "The request names a resource twice"
    UNACCEPTABLE_CREDENTIAL = 93, _FINAL, "The credential cannot be accepted"
    INCONSISTENT_VOTER_SET = 94, _FINAL, "The voter set is not the expected one"
    INVALID_UPDATE_VERSION = 95, _FINAL, "The state has been changed in between"
    FEATURE_UPDATE_FAILED = 96, _FINAL, "The feature could not be updated"
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, _FINAL, "The forwarded principal is unreadable"
    SNAPSHOT_NOT_FOUND = 98, _FINAL, "There is no such snapshot"
    POSITION_OUT_OF_RANGE = 99, _FINAL, "The position lies outside the snapshot"
    UNKNOWN_TOPIC_ID = 100, _REFRESH, "This broker knows no topic with this id"
    DUPLICATE_BROKER_REGISTRATION = 101, _FINAL, "The broker id is in use"
    BROKER_ID_NOT_REGISTERED = 102, _FINAL, "No broker has registered with this id"
    INCONSISTENT_TOPIC_ID = 103, _REFRESH, "The log belongs to a topic with another id"
    INCONSISTENT_CLUSTER_ID = 104, _FINAL, "The sender belongs to another cluster"
    TRANSACTIONAL_ID_NOT_FOUND = 105, _FINAL, "There is no such transactional id"
    FETCH_SESSION_TOPIC_ID_ERROR = 106, _RETRY, "The fetch session mixes topic names and ids"
    INELIGIBLE_REPLICA = 107, _FINAL, "A proposed replica may not join the in-sync set"
    NEW_LEADER_ELECTED = 108, _FINAL, "The change made another replica the leader"
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, _FINAL, "The offset is in remote storage only"
    FENCED_MEMBER_EPOCH = 110, _FINAL, "The member was replaced; give up its partitions"
    UNRELEASED_INSTANCE_ID = 111, _FINAL, "A living member holds this instance id"
    UNSUPPORTED_ASSIGNOR = 112, _FINAL, "The broker has no such assignor"
    STALE_MEMBER_EPOCH = 113, _FINAL, "The member is behind; heartbeat, then retry"
    MISMATCHED_ENDPOINT_TYPE = 114, _FINAL, "This is an endpoint of the other kind"
    UNSUPPORTED_ENDPOINT_TYPE = 115, _FINAL, "There are no endpoints of this kind"
    UNKNOWN_CONTROLLER_ID = 116, _FINAL, "There is no such controller"
    UNKNOWN_SUBSCRIPTION_ID = 117, _FINAL, "The telemetry subscription has changed"
    TELEMETRY_TOO_LARGE = 118, _FINAL, "The telemetry is larger than accepted"
    INVALID_REGISTRATION = 119, _FINAL, "The registration was refused"
    TRANSACTION_ABORTABLE = 120, _FINAL, "The transaction must be aborted, then may be retried"
    INVALID_RECORD_STATE = 121, _FINAL, "The record cannot be acknowledged in its state"
    SHARE_SESSION_NOT_FOUND = 122, _RETRY, "The share session is gone"
    INVALID_SHARE_SESSION_EPOCH = 123, _RETRY, "The share session is at another epoch"
    FENCED_STATE_EPOCH = 124, _FINAL, "The share state has a later epoch"
    INVALID_VOTER_KEY = 125, _FINAL, "The voter's key is another one"
    DUPLICATE_VOTER = 126, _FINAL, "The voter is in the set already"
    VOTER_NOT_FOUND = 127, _FINAL, "The voter is not in the set"
    INVALID_REGULAR_EXPRESSION = 128, _FINAL, "The regular expression is not valid RE2"
    REBOOTSTRAP_REQUIRED = 129, _FINAL, "The client should start again from its first addresses"
    STREAMS_INVALID_TOPOLOGY = 130, _FINAL, "The topology was refused"
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, _FINAL, "The topology's epoch was refused"
    STREAMS_TOPOLOGY_FENCED = 132, _FINAL, "The group runs a later topology"
    SHARE_SESSION_LIMIT_REACHED = 133, _RETRY, "There are too many share sessions"
    GROUP_DELETION_FAILED = 134, _FINAL, "The group could not be deleted"
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = 135, _FINAL, "The description was not stored"
    CONTROLLER_ID_NOT_REGISTERED = 136, _FINAL, "No controller has registered with this id"


class _CodesByNumber(dict[int, ErrorCode]):
    def __missing__(self, number: int) -> ErrorCode:
        return ErrorCode.UNKNOWN_SERVER_ERROR


# The code a peer sent, by its number; one that came after this table is UNKNOWN_SERVER_ERROR. Each
# partition of each answer has one, so it is looked up without a call of Python code.
error_code = _CodesByNumber({int(code): code for code in ErrorCode}).__getitem__


class RemoteProtocolError(Exception):
    """The peer sent bytes that the protocol does not allow: its connection must be closed."""


class KafkaError(Exception):
    """A code on its way from deep validation to the handler that answers with it."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(f"{code.name}: {message or code.text}")
        self.code = code
        self.message = message or code.text


class CorruptLogError(Exception):
    """The disk returned something else than was written: the partition must go offline."""


class Fenced(Exception):
    """A later holder has this role (controller, leader): the loop that raised this must stop."""
