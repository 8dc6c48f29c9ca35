"""``ottla quotas`` against a real broker. Nothing else there uses these names."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.client.cli.command import is_one_sentence

if TYPE_CHECKING:
    from tests.client.cli.command import Ottla


def test_quotas_are_set_shown_and_removed(broker: str, ottla: Ottla) -> None:
    """Of a user, of his client id, of the default of client ids below him, and of an address."""
    set_ = ottla(
        *("quotas", "set", "--user", "q u", "producer_byte_rate=1M", "request_percentage=12.5"),
        *("-b", broker),
    )
    pair = ("--user", "q u", "--client-defaults")
    ottla("quotas", "set", *pair, "consumer_byte_rate=500k", "-b", broker)
    ottla("quotas", "set", "--ip", "192.0.2.1", "connection_creation_rate=5", "-b", broker)
    shown = ottla("quotas", "list", "-b", broker)
    of_user = ottla("quotas", "list", "--user", "q u", "--json", "-b", broker)
    one = ottla("quotas", "remove", "--user", "q u", "request_percentage", "-b", broker)
    rest = ottla("quotas", "remove", *pair, "--json", "-b", broker)
    ottla("quotas", "remove", "--user", "q u", "-b", broker)
    ottla("quotas", "remove", "--ip", "192.0.2.1", "-b", broker)
    after = ottla("quotas", "list", "-b", broker)

    assert set_.output == b"set producer_byte_rate, request_percentage of user q u\n"
    assert [line.split() for line in shown.output.decode().splitlines()] == [
        ["USER", "CLIENT", "ADDRESS", "QUOTA", "VALUE"],
        ["-", "-", "192.0.2.1", "connection_creation_rate", "5"],
        ["q", "u", "-", "-", "producer_byte_rate", "1000000"],
        ["q", "u", "-", "-", "request_percentage", "12.5"],
        ["q", "u", "(default)", "-", "consumer_byte_rate", "500000"],
    ]
    assert json.loads(of_user.output) == [
        {
            "entity": {"user": "q u"},
            "quotas": {"producer_byte_rate": 1e6, "request_percentage": 12.5},
        },
        {"entity": {"user": "q u", "client-id": None}, "quotas": {"consumer_byte_rate": 5e5}},
    ]
    assert one.output == b"removed request_percentage of user q u\n"
    assert json.loads(rest.output) == {
        "entity": {"user": "q u", "client-id": None},
        "status": "removed",
        "quotas": ["consumer_byte_rate"],
    }
    assert after.output == b"no quota is set\n"


@pytest.mark.parametrize(
    ("arguments", "status", "part"),
    [
        (["set", "producer_byte_rate=1"], 2, "name the entity"),
        (["set", "--user", "qv", "byte_rate=1"], 2, "producer_byte_rate"),
        (["set", "--user", "qv", "producer_byte_rate=many"], 2, "number"),
        (["set", "--user", "qv", "producer_byte_rate=0"], 2, "greater than 0"),
        (["set", "--user", "qv", "--user-defaults", "producer_byte_rate=1"], 2, "not allowed"),
        (["set", "--user", "qv", "--ip", "192.0.2.1", "producer_byte_rate=1"], 1, "combined"),
        (["set", "--ip", "host.invalid", "connection_creation_rate=1"], 1, "host.invalid is not"),
        (["set", "--user", "qv", "producer_byte_rate=1.5"], 1, "producer_byte_rate"),
        (["remove", "--user", "qv"], 1, "has no quotas"),
    ],
)
def test_mistakes_about_quotas_are_told_in_one_sentence(
    broker: str, ottla: Ottla, arguments: list[str], status: int, part: str
) -> None:
    """And change nothing."""
    ended = ottla("quotas", *arguments, "-b", broker)

    assert ended.status == status
    assert part in ended.errors
    assert is_one_sentence(ended.errors)
    assert ottla("quotas", "list", "--user", "qv", "-b", broker).output == b"no quota is set\n"


def test_a_dry_run_sets_no_quota(broker: str, ottla: Ottla) -> None:
    """A quota that is wrong for a moment already hurts."""
    ended = ottla(
        "quotas", "set", "--user", "qw", "producer_byte_rate=1", "--dry-run", "-b", broker
    )

    assert ended.output == b"could set producer_byte_rate of user qw\n"
    assert ottla("quotas", "list", "--user", "qw", "-b", broker).output == b"no quota is set\n"
