"""Bugs in the audit log and in delegation tokens: each must be found by the oracles."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinating import audit_topic
from ottla.broker.coordinating.audit_topic import AuditTopic
from ottla.broker.security.audit import Audit
from ottla.broker.security.audit_file import AuditFile
from ottla.broker.security.delegation_tokens import DelegationTokens
from ottla.broker.security.logins import Logins
from ottla.broker.security.token_store import TokenStore
from tests.simulation.cluster.hazards.replacing import Replacement

if TYPE_CHECKING:
    from collections.abc import Mapping


def _drops_what_a_failed_send_had(before: Any) -> Any:
    async def send_some(self: AuditTopic) -> bool:
        batch = self._next_batch()
        if not (is_sent := await before(self)):
            self._forget(batch)
        return bool(is_sent)

    return send_some


def _sends_what_failed_last(before: Any) -> Any:
    async def send_some(self: AuditTopic) -> bool:
        if not (is_sent := await before(self)):
            self._lines.rotate(-1)
        return bool(is_sent)

    return send_some


def _does_not_wait_for_replicas(before: Any) -> Any:
    def request_of(batch: Any) -> Any:
        request = before(batch)
        request.acks = 1
        return request

    return request_of


def _writes_twice(before: Any) -> Any:
    def decided(self: Audit, *what: Any) -> bool:
        may_go_on: bool = before(self, *what)
        if what[3].endswith("7"):
            before(self, *what)
        return may_go_on

    return decided


def _leaves_out(before: Any) -> Any:
    def write(self: AuditFile, line: str) -> bool:
        return '"sequence":9,' in line or bool(before(self, line))

    return write


def _ends_no_session_of_removed_tokens(before: Any) -> Any:
    def take(self: DelegationTokens, changes: Any) -> None:
        said, self.on_end = self.on_end, lambda *_end: None
        before(self, changes)
        self.on_end = said

    return take


def _hears_of_no_change(_before: Any) -> Any:
    async def take(_self: TokenStore, _session: Any, _announced: Any) -> None:
        return

    return take


def _lets_expired_tokens_in(before: Any) -> Any:
    def login_of(self: DelegationTokens, token_id: str) -> Any:
        token = self._tokens.get(token_id)
        if token is None:
            return None
        later = token._replace(expiry_ms=token.expiry_ms + 60_000, max_ms=token.max_ms + 60_000)
        self._tokens[token_id] = later
        try:
            return before(self, token_id)
        finally:
            self._tokens[token_id] = token

    return login_of


def _keeps_sessions(_before: Any) -> Any:
    def end_sessions(_self: Logins, _credential: Any, _reason: str) -> None:
        return

    return end_sessions


PLANTED: Mapping[str, tuple[Replacement, ...]] = MappingProxyType(
    {
        "a failed send is not repeated": (
            Replacement(AuditTopic, "_send_some", _drops_what_a_failed_send_had),
        ),
        "a failed send changes the order": (
            Replacement(AuditTopic, "_send_some", _sends_what_failed_last),
        ),
        "the topic's leader alone has the lines": (
            Replacement(audit_topic, "_request_of", _does_not_wait_for_replicas),
        ),
        "a decision has two lines": (Replacement(Audit, "decided", _writes_twice),),
        "a line does not get into the file": (Replacement(AuditFile, "write", _leaves_out),),
        "sessions of removed tokens live on": (
            Replacement(DelegationTokens, "take", _ends_no_session_of_removed_tokens),
        ),
        "other brokers do not hear of removed tokens": (
            Replacement(TokenStore, "_take", _hears_of_no_change),
        ),
        "expired tokens let their holders in": (
            Replacement(DelegationTokens, "login_of", _lets_expired_tokens_in),
        ),
        "no session is ended": (Replacement(Logins, "end_sessions", _keeps_sessions),),
    }
)
# Seen only when the leader dies within milliseconds of its answer, with followers behind.
RARE = frozenset({"the topic's leader alone has the lines"})
