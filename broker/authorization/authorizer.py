"""The authorizer: handlers ask it before they act whether the caller may do so."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ottla.broker.authorization.index import AclDecision, AclIndex, decide, may_on_any
from ottla.protocol.acls import CLUSTER_NAME, OPERATIONS, AclResourceType, Operation, plain_host

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.engine.context import RequestCaller

    Tell = Callable[[RequestCaller, Operation, AclResourceType, str, AclDecision], bool]

logger = logging.getLogger("ottla.authorization")

# So many decisions are remembered; a decision and its key take about 300 bytes. Longer names, which
# a client may make up, are not kept: there would be gigabytes of them.
REMEMBERED_MAX = 100_000
NAME_CHARS_MAX = 256
_SUPER_USER = AclDecision(True, "a super user may do everything")
_NOT_LOADED = AclDecision(False, "the rules have not been loaded yet")
_FAILED = AclDecision(False, "the decision has failed")
_NO_LINE = AclDecision(False, "the change left no line in the audit log")
# Operations that change the cluster: the audit log contains them also when they are allowed.
_CHANGES = frozenset(
    {
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.ALTER_CONFIGS,
        Operation.CREATE_TOKENS,
    }
)


class Authorizer:
    """Authorizer of a broker without ``authorizer.class.name``: it allows every operation."""

    # Incremented when a decision may have changed.
    version = 0
    # Hears of each refusal, for the audit log.
    tell: Tell | None = None

    def refused(self, caller: RequestCaller, reason: str) -> None:
        """Report a request that only brokers make, and that is refused whatever the rules allow."""
        if self.tell is not None:
            cluster = AclResourceType.CLUSTER, CLUSTER_NAME
            decision = AclDecision(False, reason)
            self.tell(caller, Operation.CLUSTER_ACTION, *cluster, decision)

    def is_allowed(
        self, caller: RequestCaller, operation: Operation, resource: AclResourceType, name: str
    ) -> bool:
        """Whether the caller may perform the operation on a resource that its request names."""
        return True

    def may_see(
        self, caller: RequestCaller, operation: Operation, resource: AclResourceType, name: str
    ) -> bool:
        """The same for a resource that the request does not name: the answer omits it, and the
        refusal is not written to the audit log."""
        return self.is_allowed(caller, operation, resource, name)

    def may_create_topic(self, caller: RequestCaller, name: str) -> bool:
        """Whether the caller may create every topic, or this one."""
        create, cluster = Operation.CREATE, AclResourceType.CLUSTER
        return self.may_see(caller, create, cluster, CLUSTER_NAME) or self.is_allowed(
            caller, create, AclResourceType.TOPIC, name
        )

    def stamp(self, image: object) -> object:
        """Return the same object until the metadata or the rules change."""
        return image

    def view(self, caller: RequestCaller) -> object:
        """Callers with equal views may do the same."""
        if self.__class__ is Authorizer:
            return ()
        return self.version, caller.principal, caller.client_host

    def may_on_any(
        self, caller: RequestCaller, operation: Operation, resource: AclResourceType
    ) -> bool:
        """Whether the caller may do this to at least one resource of the type (KIP-679)."""
        return True

    def topic_operations(self, caller: RequestCaller, topic: str) -> int:
        """Bit field of what the caller may do to the topic (Metadata 8+)."""
        return self._bits(caller, AclResourceType.TOPIC, topic)

    def group_operations(self, caller: RequestCaller, group_id: str) -> int:
        """Bit field of what the caller may do to the group (KIP-430)."""
        return self._bits(caller, AclResourceType.GROUP, group_id)

    def cluster_operations(self, caller: RequestCaller) -> int:
        """Bit field of what the caller may do to the cluster (Metadata 8-10).

        0 for a caller that may not describe the cluster."""
        describe, kind = Operation.DESCRIBE, AclResourceType.CLUSTER
        if not self.is_allowed(caller, describe, kind, CLUSTER_NAME):
            return 0
        return self._bits(caller, kind, CLUSTER_NAME)

    def _bits(self, caller: RequestCaller, resource: AclResourceType, name: str) -> int:
        allowed = (op for op in OPERATIONS[resource] if self.may_see(caller, op, resource, name))
        return sum(1 << operation for operation in allowed)


class AclAuthorizer(Authorizer):
    """Decides by the rules of an index, and caches decisions until the index is replaced.

    It calls ``tell`` for each refusal and for each allowed change of the cluster. It refuses an
    allowed change for which ``tell`` returns False."""

    def __init__(
        self, super_users: frozenset[str], *, open_without_rules: bool, tell: Tell
    ) -> None:
        self._super_users = super_users
        self._open_without_rules = open_without_rules
        self.tell: Tell = tell
        self._index: AclIndex | None = None
        self.version = 0
        # True for decisions that are not audited; other decisions are audited each time.
        self._remembered: dict[Any, AclDecision | bool] = {}
        self._remembered_any: dict[Any, bool] = {}
        self._stamp: tuple[object] = (None,)

    @property
    def index(self) -> AclIndex:
        """The rules in force; empty before they are loaded."""
        return self._index or AclIndex()

    def take(self, index: AclIndex) -> None:
        """Decide by these rules from now on."""
        self._index = index
        self.version += 1
        self._stamp = (None,)
        self._forget()

    def stamp(self, image: object) -> object:
        if self._stamp[0] is not image:
            self._stamp = (image,)
        return self._stamp

    def view(self, caller: RequestCaller) -> object:
        return () if caller.principal in self._super_users else super().view(caller)

    def _forget(self) -> None:
        self._remembered = {}
        self._remembered_any = {}

    def is_allowed(
        self, caller: RequestCaller, operation: Operation, resource: AclResourceType, name: str
    ) -> bool:
        key = caller.principal, caller.client_host, operation, resource, name
        decision = self._remembered.get(key)
        if decision is True:
            return True
        found = self._decision(key) if decision is None else decision
        assert isinstance(found, AclDecision)
        if not found.is_allowed or operation in _CHANGES:
            return self._told(caller, operation, (resource, name), found)
        return True

    def may_see(
        self, caller: RequestCaller, operation: Operation, resource: AclResourceType, name: str
    ) -> bool:
        key = caller.principal, caller.client_host, operation, resource, name
        decision = self._remembered.get(key)
        if decision is None:
            decision = self._decision(key)
        return decision is True or (isinstance(decision, AclDecision) and decision.is_allowed)

    def may_create_topic(self, caller: RequestCaller, name: str) -> bool:
        who, create = (caller.principal, caller.client_host), Operation.CREATE
        decision = self.decide(*who, create, AclResourceType.CLUSTER, CLUSTER_NAME)
        if not decision.is_allowed:
            decision = self.decide(*who, create, AclResourceType.TOPIC, name)
        # The audit line names the topic in each case: an operator searches for its name.
        return self._told(caller, create, (AclResourceType.TOPIC, name), decision)

    def _told(
        self,
        caller: RequestCaller,
        operation: Operation,
        named: tuple[AclResourceType, str],
        decision: AclDecision,
    ) -> bool:
        """Tell of the decision. Returns whether the operation may go on."""
        may_go_on = self.tell(caller, operation, *named, decision)
        if decision.is_allowed and not may_go_on:
            self.tell(caller, operation, *named, _NO_LINE)
        return decision.is_allowed and may_go_on

    def may_on_any(
        self, caller: RequestCaller, operation: Operation, resource: AclResourceType
    ) -> bool:
        key = caller.principal, caller.client_host, operation, resource
        found = self._remembered_any.get(key)
        if found is None:
            found = self._remembered_any[key] = self._decide_any(*key)
            if len(self._remembered_any) > REMEMBERED_MAX:
                self._forget()
        return found

    def _decide_any(
        self, principal: str, host: str, operation: Operation, resource: AclResourceType
    ) -> bool:
        if principal in self._super_users:
            return True
        if self._index is None:
            return False
        caller = principal, plain_host(host)
        is_open = self._open_without_rules
        return may_on_any(self._index, caller, operation, resource, open_without_rules=is_open)

    def _decision(self, key: tuple[str, str, Operation, AclResourceType, str]) -> AclDecision:
        decision = self.decide(*key)
        if len(key[4]) > NAME_CHARS_MAX:
            return decision
        if len(self._remembered) >= REMEMBERED_MAX:
            self._forget()
        is_silent = decision.is_allowed and key[2] not in _CHANGES
        self._remembered[key] = True if is_silent else decision
        return decision

    def decide(
        self,
        principal: str,
        host: str,
        operation: Operation,
        resource: AclResourceType,
        name: str,
    ) -> AclDecision:
        """The decision, with its reason."""
        if principal in self._super_users:
            return _SUPER_USER
        if self._index is None:
            return _NOT_LOADED
        caller = principal, plain_host(host)
        is_open = self._open_without_rules
        try:
            return decide(
                self._index, caller, operation, (resource, name), open_without_rules=is_open
            )
        except Exception:
            # The broker denies an operation that it cannot decide about.
            logger.exception("the decision about %s of %s has failed", operation.name, principal)
            return _FAILED
