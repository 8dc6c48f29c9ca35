"""The audit log: one line of JSON per decision that an operator may want to look up. Pure.

The broker writes a line for each refused operation, each allowed change of the cluster and each
authentication. Texts from clients are escaped and truncated. Refusals are rate-limited, since a
client can cause any number of them: per kind, and also per client, because one request may name a
hundred thousand topics. The next line that is written tells how many were omitted.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ottla.protocol.acls import AclResourceType, spelled
from ottla.protocol.apis import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.authorization.index import AclDecision
    from ottla.broker.engine.context import RequestCaller
    from ottla.protocol.acls import AclRule, Operation
    from ottla.protocol.ports import Clock

TEXT_MAX = 256
# Maximum number of refusals of one kind within a window.
BURST = 5
# Maximum for one principal at one address, or for failed logins from one address.
CLIENT_BURST = 200
WINDOW_MS = 10_000
KINDS_MAX = 10_000

_Kind = tuple[str, ...]


class Audit:
    """The audit log of a broker, owned by the server.

    Args:
        node_id: The broker.
        clock: For times and windows.
        write: Takes one line; returns False if it could not store the line.
        has_logins: Whether to log successful logins, which are many on a busy broker.
        needs_lines: Whether to refuse a change whose line could not be stored.

    ``write_too`` receives the same lines."""

    def __init__(
        self,
        node_id: int,
        clock: Clock,
        write: Callable[[str], object],
        *,
        has_logins: bool = True,
        needs_lines: bool = True,
    ) -> None:
        self.write_too: Callable[[str], object] | None = None
        self._node_id = node_id
        self._clock = clock
        self._write = write
        self._has_logins = has_logins
        self._needs_lines = needs_lines
        # Whether the last line was lost.
        self.has_failed = False
        self._sequence = 0
        self._windows: dict[_Kind, list[float]] = {}
        # Refusals without a line of their own.
        self.left_out_count = 0
        self.line_count = 0

    def decided(
        self,
        caller: RequestCaller,
        operation: Operation,
        resource: AclResourceType,
        name: str,
        decision: AclDecision,
    ) -> bool:
        """Log a refused operation, or an allowed one that changes the cluster.

        Returns False for a change that must be refused because its line could not be stored."""
        left_out = 0
        if not decision.is_allowed:
            client = ("client", caller.principal, caller.client_host)
            kind = (caller.principal, operation.name, resource.name, name[:TEXT_MAX])
            left_out = self._left_out(client, kind)
            if left_out < 0:
                return True
        fields = {
            "event": "change" if decision.is_allowed else "refusal",
            **_of_caller(caller),
            "operation": spelled(operation),
            "resource_type": spelled(resource),
            "resource": name,
            "decision": "allowed" if decision.is_allowed else "denied",
            "reason": decision.reason,
            "rule": None if decision.rule is None else told(decision.rule),
        }
        self._say(fields, left_out)
        return not (decision.is_allowed and self.has_failed and self._needs_lines)

    def authenticated(
        self, peer: RequestCaller, mechanism: str, error: str | None = None, user: str = ""
    ) -> None:
        """Log that a connection has authenticated or failed to.

        Args:
            peer: the connection; its principal is the new one after a success.
            mechanism: such as SCRAM-SHA-256, or SSL for a certificate.
            error: why it has failed; None after a success. No secrets.
            user: the name that a failed client gave; "" if it gave none that can be read.
        """
        if error is None and not self._has_logins:
            return
        left_out = 0
        if error is not None:
            client = ("authentication", peer.client_host)
            left_out = self._left_out(client, (*client, user[:TEXT_MAX]))
            if left_out < 0:
                return
        fields = {
            "event": "authentication" if error is None else "authentication-failure",
            **_of_caller(peer),
            "mechanism": mechanism,
            "reason": error,
        }
        if error is not None:
            fields["user"] = user
        self._say(fields, left_out)

    def token_changed(self, caller: RequestCaller, verb: str, token_id: str, owner: str) -> None:
        """Log that a client has created, renewed or expired a delegation token. No ACLs apply to
        tokens: owner and renewers may change them."""
        fields = {
            "event": "change",
            **_of_caller(caller),
            "operation": verb,
            "resource_type": spelled(AclResourceType.DELEGATION_TOKEN),
            "resource": token_id,
            "decision": "allowed",
            "reason": f"a token of {owner}",
        }
        self._say(fields)

    def said(self, event: str, **fields: str | int | None) -> None:
        """Log another event of security, such as a start with insecure settings."""
        self._say({"event": event, **fields})

    def _left_out(self, client: _Kind, kind: _Kind) -> int:
        """Return how many lines were omitted before this one; -1 if this line must be omitted,
        too."""
        of_client = self._window(client, CLIENT_BURST)
        if of_client[1] >= CLIENT_BURST:
            of_client[1] += 1
            self.left_out_count += 1
            return -1
        window = self._window(kind, BURST)
        window[1] += 1
        if window[1] > BURST:
            self.left_out_count += 1
            return -1
        of_client[1] += 1
        left_out = int(window[2] + of_client[2])
        window[2] = of_client[2] = 0
        return left_out

    def _say(self, fields: dict[str, Any], left_out: int = 0) -> None:
        self._sequence += 1
        self.line_count += 1
        line = {
            "time": _iso(int(self._clock.wall_ms())),
            "sequence": self._sequence,
            "broker": self._node_id,
            **{name: _cut(value) for name, value in fields.items()},
        }
        if left_out:
            line["left_out_before"] = left_out
        # ASCII only: control characters in a client's texts could forge lines or terminal output.
        text = json.dumps(line, separators=(",", ":"))
        self.has_failed = self._write(text) is False
        if self.write_too is not None:
            self.write_too(text)

    def _window(self, kind: _Kind, burst: int) -> list[float]:
        """Return start, line count and earlier omitted count of the kind's current window."""
        now_ms = self._clock.now_ms()
        window = self._windows.pop(kind, None)
        if window is None:
            window = [now_ms, 0, 0]
        elif window[0] + WINDOW_MS <= now_ms:
            window = [now_ms, 0, window[2] + max(0, window[1] - burst)]
        # Move it to the end: the first entries are the ones that have been silent the longest.
        self._windows[kind] = window
        if len(self._windows) > KINDS_MAX:
            del self._windows[next(iter(self._windows))]
        return window


def told(rule: AclRule) -> str:
    """The rule as a person reads it."""
    pattern = rule.pattern
    return (
        f"{spelled(rule.permission)} {rule.principal} from {rule.host} {spelled(rule.operation)} "
        f"on {spelled(pattern.resource_type)} {pattern.pattern_type.name.lower()} {pattern.name}"
    )


def _iso(wall_ms: int) -> str:
    """Format the time in UTC, such as 2026-11-24T00:10:11.123Z, without importing ``datetime``."""
    days, of_day_ms = divmod(wall_ms, 86_400_000)
    # Years start in March here, so that the leap day is the last day of the year.
    era, of_era = divmod(days + 719_468, 146_097)
    year = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    year += 400 * era + (month <= 2)
    seconds, milliseconds = divmod(of_day_ms, 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z"


def _of_caller(caller: RequestCaller) -> dict[str, Any]:
    """Return the fields that describe the client of a request, or of a connection."""
    fields: dict[str, Any] = {
        "listener": caller.listener,
        "peer": caller.client_host,
        "principal": caller.principal,
    }
    connection = getattr(caller, "peer", caller)
    fields["connection"] = getattr(connection, "connection_id", None)
    key = getattr(caller, "api_key", None)
    if key is not None:
        fields["api"] = ApiKey(key).name
        fields["api_version"] = getattr(caller, "api_version", None)
        fields["correlation_id"] = getattr(caller, "correlation_id", None)
        fields["client_id"] = getattr(caller, "client_id", None)
    return fields


def _cut(value: Any) -> Any:
    if isinstance(value, str) and len(value) > TEXT_MAX:
        return value[:TEXT_MAX] + "…"
    return value
