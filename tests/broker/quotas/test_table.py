"""Which quota counts for a client: Kafka's order, and who shares a bucket."""

from __future__ import annotations

import pytest

from ottla.broker.quotas.table import (
    CONSUME,
    PRODUCE,
    Limit,
    QuotaEntity,
    QuotaTable,
    matching_entities,
)

# Kafka's order, as types and names of the store.
ORDER = [
    ("users", "alice/clients/app"),
    ("users", "alice/clients/<default>"),
    ("users", "alice"),
    ("users", "<default>/clients/app"),
    ("users", "<default>/clients/<default>"),
    ("users", "<default>"),
    ("clients", "app"),
    ("clients", "<default>"),
]


@pytest.mark.parametrize("strongest", range(len(ORDER)))
def test_the_most_exact_quota_counts(strongest: int) -> None:
    """Each entity wins over all that come after it in Kafka's order."""
    table = QuotaTable()
    for rate, (kind, name) in list(enumerate(ORDER, start=1))[strongest:]:
        table.put(kind, name, {PRODUCE: str(rate)})
    found = table.find(PRODUCE, "alice", "app")

    assert found is not None
    assert found.rate == strongest + 1
    assert table.find(CONSUME, "alice", "app") is None


def test_a_default_quota_is_not_shared_by_all() -> None:
    """Each user has as much; all client ids of a user share what the user has."""
    table = QuotaTable()
    table.put("users", "<default>", {PRODUCE: "7"})

    assert table.find(PRODUCE, "alice", "a") == Limit(7, QuotaEntity("alice", None))
    assert table.find(PRODUCE, "bob", "a") == Limit(7, QuotaEntity("bob", None))


def test_a_default_of_pairs_gives_each_pair_its_own() -> None:
    """The quota of the default user and the default client id belongs to each pair by itself."""
    table = QuotaTable()
    table.put("users", "<default>/clients/<default>", {PRODUCE: "7"})

    assert table.find(PRODUCE, "u", "c") == Limit(7, QuotaEntity("u", "c"))


def test_quotas_of_a_client_id_are_shared_by_its_users() -> None:
    """As in Kafka: the client id is the entity, for all users."""
    table = QuotaTable()
    table.put("clients", "app", {PRODUCE: "7"})

    assert table.find(PRODUCE, "u", "app") == Limit(7, QuotaEntity(None, "app"))
    assert table.find(PRODUCE, "u", "other") is None


def test_an_empty_client_id_is_a_client_id() -> None:
    """It falls under the default of client ids, before the user's own quota."""
    table = QuotaTable()
    table.put("users", "u", {PRODUCE: "1"})
    table.put("users", "u/clients/<default>", {PRODUCE: "2"})
    found = table.find(PRODUCE, "u", "")

    assert found == Limit(2, QuotaEntity("u", ""))
    assert len(set(matching_entities("u", ""))) == 8


def test_a_removed_quota_counts_no_more() -> None:
    """And the table says whether any is left."""
    table = QuotaTable()
    table.put("users", "u", {PRODUCE: "1", "SCRAM-SHA-256": "salt=x"})
    before = table.limits_clients
    table.put("users", "u", {"SCRAM-SHA-256": "salt=x"})

    assert (before, table.limits_clients) == (True, False)
    assert table.find(PRODUCE, "u", "c") is None


def test_an_unreadable_quota_is_named_and_does_not_count() -> None:
    """One bad znode must not take the other quotas away."""
    table = QuotaTable()

    assert table.put("users", "u", {PRODUCE: "many", CONSUME: "5"}) == [PRODUCE]
    assert table.find(PRODUCE, "u", "c") is None
    assert table.find(CONSUME, "u", "c") is not None


def test_a_quota_of_zero_allows_next_to_nothing() -> None:
    """Old tools can store it; it must not mean "no limit"."""
    table = QuotaTable()
    table.put("users", "u", {PRODUCE: "0"})
    found = table.find(PRODUCE, "u", "c")

    assert found is not None
    assert 0 < found.rate <= 1


def test_addresses_have_their_own_rate_or_the_default() -> None:
    """KIP-612."""
    table = QuotaTable()
    assert table.connection_rate("10.0.0.1") is None
    table.put("ips", "<default>", {"connection_creation_rate": "3"})
    table.put("ips", "10.0.0.1", {"connection_creation_rate": "5"})

    assert (table.connection_rate("10.0.0.1"), table.connection_rate("::1")) == (5, 3)
    assert table.limits_ips
    assert not table.limits_clients
