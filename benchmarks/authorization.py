"""``python -m benchmarks authorization``: what a decision costs with 10,000 access rules.

Timed inside this process, beside a broker without an authorizer: the difference is what each
produced or fetched partition costs more.
"""

from __future__ import annotations

import time
import timeit
from typing import TYPE_CHECKING

from ottla.broker.authorization.authorizer import AclAuthorizer, Authorizer
from ottla.broker.authorization.index import AclIndex
from ottla.protocol.acls import (
    AclPattern,
    AclResourceType,
    AclRule,
    Operation,
    PatternType,
    Permission,
)
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

RULES = 10_000
USERS = 100
CALLS = 1_000
REPEATS = 100
TOPIC = AclResourceType.TOPIC


class _Caller(NamedTuple):
    principal: str
    client_host: str
    listener: str


CALLER = _Caller("User:app-77", "10.1.2.3", "PLAINTEXT")


def _rules() -> list[AclRule]:
    """Half of them literal, half of them prefixes, of a hundred users."""
    return [
        AclRule(
            AclPattern(TOPIC, f"topic-{number}")
            if number % 2
            else AclPattern(TOPIC, f"team-{number}-", PatternType.PREFIXED),
            f"User:app-{number % USERS}",
            "*",
            Operation.WRITE,
            Permission.ALLOW,
        )
        for number in range(RULES)
    ]


def _call_us(authorizer: Authorizer) -> float:
    # Each request brings a name of its own, whose hash is not known yet.
    names = [b"topic-77".decode() for _ in range(CALLS)]
    is_allowed = authorizer.is_allowed

    def calls() -> None:
        for name in names:
            is_allowed(CALLER, Operation.WRITE, TOPIC, name)

    assert is_allowed(CALLER, Operation.WRITE, TOPIC, "topic-77")
    return 1e6 * min(timeit.repeat(calls, number=REPEATS, repeat=9)) / REPEATS / CALLS


def authorization() -> Mapping[str, float]:
    """A decision that was made before (aim below 0.3 us), and a first one."""
    rules = _rules()
    started = time.perf_counter()
    index = AclIndex.of(rules)
    loaded_ms = 1e3 * (time.perf_counter() - started)
    authorizer = AclAuthorizer(frozenset(), open_without_rules=False, tell=lambda *_told: True)
    authorizer.take(index)
    arguments = (*CALLER[:2], Operation.WRITE, TOPIC, "topic-77")
    first = timeit.repeat(lambda: authorizer.decide(*arguments), number=1_000, repeat=9)
    changed = {rules[1].pattern: (rules[1],)}
    change = timeit.repeat(lambda: index.replaced(changed), number=10, repeat=9)
    return {
        "rules": RULES,
        "without_authorizer_us": _call_us(Authorizer()),
        "decision_us": _call_us(authorizer),
        "first_decision_us": 1e6 * min(first) / 1_000,
        "index_of_all_rules_ms": loaded_ms,
        "index_after_a_change_ms": 1e3 * min(change) / 10,
    }


AUTHORIZATION_MEASUREMENTS: dict[str, Callable[[], Mapping[str, float]]] = {
    "authorization": authorization
}
