"""Buckets: shared by those who share a quota, kept while in use, bounded in number."""

from __future__ import annotations

from ottla.broker.quotas.client_limits import ClientBuckets, Windows
from ottla.broker.quotas.mutations import Mutations
from ottla.broker.quotas.table import MUTATION, PRODUCE, REQUEST, QuotaTable


def buckets(entity: tuple[str, str], **rates: str) -> tuple[QuotaTable, ClientBuckets]:
    table = QuotaTable()
    table.put(*entity, rates)
    return table, ClientBuckets(table, Windows())


def test_all_clients_of_a_user_share_the_users_quota() -> None:
    """Otherwise a user gets any rate by using many client ids."""
    _table, all_of_them = buckets(("users", "u"), **{PRODUCE: "1000"})
    one, other = (all_of_them.limits_of("u", name, 0) for name in ("a", "b"))
    assert one is not None
    assert one.produce is not None
    assert other is not None
    assert other.produce is not None
    one.produce.spend(3_000, 0)

    assert other.produce.hold_ms(0) == 2_500
    assert one.consume is None


def test_a_client_without_a_quota_has_no_limits() -> None:
    """It must not even be metered."""
    _table, all_of_them = buckets(("users", "u"), **{PRODUCE: "1000"})

    assert all_of_them.limits_of("other", "a", 0) is None


def test_a_changed_quota_counts_for_those_in_use() -> None:
    """The debt stays and is paid off at the new rate."""
    table, all_of_them = buckets(("users", "u"), **{PRODUCE: "1000"})
    before = all_of_them.limits_of("u", "c", 0)
    assert before is not None
    assert before.produce is not None
    before.produce.spend(3_000, 0)
    table.put("users", "u", {PRODUCE: "2000"})
    all_of_them.forget()
    after = all_of_them.limits_of("u", "c", 0)

    assert after is not None
    assert after.produce is before.produce
    assert after.produce.hold_ms(0) == 1_250


def test_invented_client_ids_do_not_fill_the_memory() -> None:
    """Buckets that are full again are dropped, one with a debt is kept."""
    _table, all_of_them = buckets(("clients", "<default>"), **{PRODUCE: "10"})
    debtor = all_of_them.limits_of("u", "debtor", 0)
    assert debtor is not None
    assert debtor.produce is not None
    debtor.produce.spend(1e9, 0)
    for number in range(50_000):
        limits = all_of_them.limits_of("u", str(number), number)
        assert limits is not None
        assert limits.produce is not None
        limits.produce.spend(1, number)
    again = all_of_them.limits_of("u", "debtor", 50_000)

    assert len(list(all_of_them.in_use())) < 3_000
    assert again is not None
    assert again.produce is debtor.produce


def test_a_hold_for_request_time_is_short() -> None:
    """Kafka bounds it by one window: the client must not look dead for a slow request."""
    _table, all_of_them = buckets(("users", "u"), **{REQUEST: "1"})
    limits = all_of_them.limits_of("u", "c", 0)
    assert limits is not None
    assert limits.request is not None
    limits.request.spend(60, 0)

    assert limits.request.hold_ms(0) == 1_000
    assert limits.request.rate_per_s == 10


def test_mutations_above_the_quota_are_refused_by_strict_requests() -> None:
    """KIP-599: the bucket holds eleven seconds, and the last one within it may overdraw it."""
    _table, all_of_them = buckets(("users", "u"), **{MUTATION: "1"})
    limits = all_of_them.limits_of("u", "c", 0)
    assert limits is not None
    strict = Mutations(limits.mutation, lambda: 0.0, is_strict=True)

    assert strict.allow("a", 10)
    assert strict.allow("b", 10)
    assert strict.throttle_ms() == 0
    assert not strict.allow("c", 1)
    assert strict.throttle_ms() == 9_000
    strict.give_back("b")
    assert strict.allow("c", 1)


def test_mutations_of_old_requests_are_done_and_their_client_held() -> None:
    """Clients of before KIP-599 do not know the error."""
    _table, all_of_them = buckets(("users", "u"), **{MUTATION: "1"})
    limits = all_of_them.limits_of("u", "c", 0)
    assert limits is not None
    permissive = Mutations(limits.mutation, lambda: 0.0, is_strict=False)

    assert permissive.allow("a", 12)
    assert permissive.allow("b", 12)
    assert permissive.throttle_ms() == 13_000
