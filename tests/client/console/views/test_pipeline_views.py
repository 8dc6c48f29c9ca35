"""Mirrors, Spark queries and lines of the audit log as rows."""

from __future__ import annotations

import json

from ottla.client.console.record_runs import SeenRecord
from ottla.client.console.views.pipeline_views import audit_rows, kind_of, note_rows


def _record(offset: int, value: bytes | None, key: bytes | None = None) -> SeenRecord:
    return SeenRecord("t", 0, offset, 1_000 + offset, key, value, ())


def test_groups_are_told_apart() -> None:
    """By the names that Spark gives, and by the client that a mirror is."""
    assert kind_of("spark-kafka-source-7f-driver", ()) == "spark"
    assert kind_of("mirror.west", ["ottla-mirror"]) == "mirror"
    assert kind_of("billing", ["app", ""]) is None


def test_notes_of_mirrors_are_summed_up() -> None:
    """The newest time of each topic; what is no note is left out."""
    key = {"source": "west", "topic": "orders", "slot": 0}
    value = json.dumps({"target_topic": "west.orders"}).encode()
    notes = [
        _record(0, value, json.dumps({**key, "partition": 0}).encode()),
        _record(5, value, json.dumps({**key, "partition": 1}).encode()),
        _record(6, b"[1]", b"{"),
        _record(7, None, json.dumps({**key, "partition": 2}).encode()),
    ]

    assert note_rows(notes) == [
        {
            "source": "west",
            "topic": "orders",
            "target_topic": "west.orders",
            "partitions": 2,
            "last_ms": 1_005,
        }
    ]


def test_lines_of_the_audit_are_searched() -> None:
    """Each word counts; a line that is no JSON does not end the page."""
    lines = [
        _record(2, json.dumps({"event": "refusal", "principal": "User:mallory"}).encode()),
        _record(1, b"\xff{ no json mallory"),
        _record(0, json.dumps({"event": "change", "resource": ["a"], "broker": 1}).encode()),
    ]

    assert [row["offset"] for row in audit_rows(lines, "mallory")] == [2, 1]
    assert [row["event"] for row in audit_rows(lines, "MALLORY refusal")] == ["refusal"]
    assert audit_rows(lines, "change")[0]["resource"] == "['a']"
    assert audit_rows(lines, "change")[0]["broker"] == 1
