"""Each decision that has to be looked up later is one line, which a client cannot forge."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.authorization.index import AclDecision
from ottla.broker.engine.context import RequestContext
from ottla.broker.security.audit import BURST, CLIENT_BURST, KINDS_MAX, TEXT_MAX, WINDOW_MS, Audit
from ottla.broker.security.audit_file import AuditFile, audit_sink
from ottla.broker.system.memory_disk import MemoryDisk
from ottla.protocol.acls import AclPattern, AclResourceType, AclRule, Operation, Permission
from ottla.protocol.apis import ApiKey
from ottla.protocol.data_classes import dataclass
from tests.coordinator.store.support import StillClock

TOPIC, READ = AclResourceType.TOPIC, Operation.READ
REFUSED = AclDecision(False, "no rule allows it")
RULE = AclRule(AclPattern(TOPIC, "t"), "User:me", "*", Operation.ALTER, Permission.ALLOW)


@dataclass(slots=True)
class Peer:
    """A connection."""

    principal: str = "User:me"
    client_host: str = "10.0.0.1"
    listener: str = "SASL_SSL"
    connection_id: str = "10.0.0.1:5-10.0.0.9:9092-0"


class Lines:
    """An audit log in memory, and the clock that it reads."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.clock = StillClock()
        self.audit = Audit(7, self.clock, self.texts.append)

    def refuse(self, caller: Any, name: str = "t") -> None:
        self.audit.decided(caller, READ, TOPIC, name, REFUSED)

    @property
    def parsed(self) -> list[dict[str, Any]]:
        return [json.loads(text) for text in self.texts]


def _request(client_id: str = "app") -> RequestContext:
    peer: Any = Peer()
    return RequestContext(peer, ApiKey.FETCH, 13, 42, client_id, 0.0)


def test_a_refusal_names_caller_operation_resource_and_rule() -> None:
    """Without it an operator cannot tell an attack from a forgotten rule."""
    lines = Lines()
    lines.refuse(_request())

    (line,) = lines.parsed
    assert line == {
        "time": "2023-11-14T22:13:20.000Z",
        "sequence": 1,
        "broker": 7,
        "event": "refusal",
        "listener": "SASL_SSL",
        "peer": "10.0.0.1",
        "principal": "User:me",
        "connection": "10.0.0.1:5-10.0.0.9:9092-0",
        "api": "FETCH",
        "api_version": 13,
        "correlation_id": 42,
        "client_id": "app",
        "operation": "Read",
        "resource_type": "Topic",
        "resource": "t",
        "decision": "denied",
        "reason": "no rule allows it",
        "rule": None,
    }


@given(st.datetimes(datetime(1970, 1, 1), datetime(2400, 1, 1)))
def test_times_are_those_of_the_calendar(moment: datetime) -> None:
    """Leap years included."""
    lines = Lines()
    utc = moment.replace(tzinfo=UTC, microsecond=moment.microsecond // 1000 * 1000)
    lines.clock.wall = round(utc.timestamp() * 1000)
    lines.audit.said("moment")

    expected = utc.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert lines.parsed[0]["time"] == expected


def test_an_allowed_change_names_its_rule() -> None:
    """And the numbers of lines follow each other, so that a gap shows."""
    lines = Lines()
    for _ in range(3):
        decision = AclDecision(True, "a rule allows it", RULE)
        lines.audit.decided(_request(), Operation.ALTER, TOPIC, "t", decision)

    assert [line["sequence"] for line in lines.parsed] == [1, 2, 3]
    assert {line["event"] for line in lines.parsed} == {"change"}
    assert lines.parsed[0]["rule"] == "Allow User:me from * Alter on Topic literal t"


def test_authentication_is_told_with_its_mechanism() -> None:
    """A success has the new principal, a failure the name that was given."""
    lines = Lines()
    lines.audit.authenticated(Peer(), "PLAIN")
    lines.audit.authenticated(Peer("User:ANONYMOUS"), "PLAIN", error="no such user", user="eve")
    lines.audit.said("start", insecure_listeners="PLAINTEXT")

    ok, failed, start = lines.parsed
    assert (ok["event"], ok["principal"], ok["mechanism"]) == ("authentication", "User:me", "PLAIN")
    assert (failed["event"], failed["user"]) == ("authentication-failure", "eve")
    assert start["insecure_listeners"] == "PLAINTEXT"


def test_logins_that_succeed_are_left_out_of_the_log_of_the_process() -> None:
    """A client that connects for each record would fill it; failures are there in any case."""
    lines = Lines()
    audit = Audit(7, lines.clock, lines.texts.append, has_logins=False)
    audit.authenticated(Peer(), "PLAIN")
    audit.authenticated(Peer("User:ANONYMOUS"), "PLAIN", "wrong password")

    assert [line["event"] for line in lines.parsed] == ["authentication-failure"]
    assert lines.parsed[0]["sequence"] == 1


def test_texts_of_clients_are_escaped_and_truncated() -> None:
    """A line break in a client id would forge a line, an escape sequence a terminal's picture."""
    lines = Lines()
    lines.refuse(_request("x\n\x1b[31m" + "é" * 10**6), name="t" * 10**6)

    (text,) = lines.texts
    assert text.isascii()
    assert text.isprintable()
    assert len(text) < 20 * TEXT_MAX
    assert lines.parsed[0]["client_id"].startswith("x\n\x1b[31m")


def test_repeated_refusals_are_counted_instead_of_written() -> None:
    """A client in a loop must not fill the disk, nor hide another one's refusal."""
    lines = Lines()
    for _ in range(1000):
        lines.refuse(_request())
    lines.refuse(_request(), name="other")
    assert len(lines.texts) == BURST + 1
    assert lines.audit.left_out_count == 1000 - BURST

    lines.clock.now += WINDOW_MS
    lines.refuse(_request())
    lines.refuse(_request())

    assert lines.parsed[-2]["left_out_before"] == 1000 - BURST
    assert "left_out_before" not in lines.parsed[-1]


def test_only_so_many_kinds_of_refusals_are_remembered() -> None:
    """Clients that ask for ever new names must not fill the memory."""
    lines = Lines()
    for number in range(KINDS_MAX + 100):
        lines.refuse(Peer(f"User:{number}"))

    assert len(lines.audit._windows) == KINDS_MAX
    assert len(lines.texts) == KINDS_MAX + 100


def test_one_client_that_asks_for_ever_new_names_fills_neither_the_disk_nor_the_loops_time() -> (
    None
):
    """A request of FindCoordinator may name a hundred thousand groups. What was left out is said,
    and the refusals of other clients are not hidden."""
    lines = Lines()
    for number in range(10 * CLIENT_BURST):
        lines.refuse(Peer(), name=str(number))
    lines.refuse(Peer("User:other"))
    assert len(lines.texts) == CLIENT_BURST + 1
    assert lines.audit.left_out_count == 9 * CLIENT_BURST

    lines.clock.now += WINDOW_MS
    lines.refuse(Peer(), name="new")
    assert lines.parsed[-1]["left_out_before"] == 9 * CLIENT_BURST


def test_one_address_that_fails_to_log_in_as_ever_new_users_is_counted() -> None:
    """The names are the stranger's choice."""
    lines = Lines()
    for number in range(2 * CLIENT_BURST):
        lines.audit.authenticated(Peer("User:ANONYMOUS"), "PLAIN", "unknown", user=str(number))
    assert len(lines.texts) == CLIENT_BURST


def test_lines_go_to_the_file_that_the_setting_names() -> None:
    """One after the other; a file that was moved away is made again."""
    disk = MemoryDisk()
    sink = audit_sink(disk, "/audit.log")
    sink("one")
    sink("two")
    file = disk.open("/audit.log")

    assert file.pread(file.size_bytes, 0) == b"one\ntwo\n"


class FullDisk(MemoryDisk):
    """Opens no file."""

    def open(self, path: str, *, create: bool = False) -> Any:
        raise OSError(28, "No space left on device")


def test_a_full_disk_is_an_alarm_and_the_lines_go_to_the_log(caplog: Any) -> None:
    """Once, not for each line; no line is lost."""
    with caplog.at_level("INFO", "ottla.audit"):
        sink = AuditFile(FullDisk(), "/audit.log")
        sink.write("one")
        sink.write("two")

    said = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert [name for name, _text in said] == ["CRITICAL", "INFO", "INFO"]
    assert [text for _name, text in said[1:]] == ["one", "two"]


@pytest.mark.parametrize("needs_lines", [True, False])
def test_a_change_without_a_line_may_not_go_on(needs_lines: bool) -> None:
    """A refusal is one in any case, and the next line that is kept ends it."""
    kept: list[bool] = []
    audit = Audit(7, StillClock(), lambda _line: kept[-1], needs_lines=needs_lines)

    def may_go_on(decision: AclDecision) -> bool:
        return audit.decided(_request(), Operation.ALTER, TOPIC, "t", decision)

    allowed = AclDecision(True, "a rule allows it", RULE)
    kept.append(True)
    assert may_go_on(allowed)
    kept.append(False)
    assert may_go_on(allowed) is not needs_lines
    assert may_go_on(REFUSED)
    assert audit.has_failed
    kept.append(True)
    assert may_go_on(allowed)
    assert not audit.has_failed
