"""Each API for callers with all sets of rules: exactly what is allowed is done.

The rules of each situation are put in force, the request is sent over a connection, and the codes
in its answer are compared with those of an evaluator that reads the rules one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ottla.broker.api.rights import RIGHTS, Right
from ottla.broker.api.table import TABLE
from ottla.broker.authorization.authorizer import AclAuthorizer
from ottla.broker.authorization.index import AclIndex
from ottla.protocol.acls import AclPattern, AclRule, Operation, PatternType, Permission
from ottla.protocol.apis import ApiKey
from ottla.protocol.compile import encode
from tests.broker.authorization.case import (
    ANY_TOPIC,
    NO_CLUSTER,
    NO_GROUP,
    NO_TOPIC,
    NO_TXN,
    OK,
    TOPIC,
    Case,
    Need,
)
from tests.broker.authorization.cases import CASES, FREE, LISTS, OF_LOGINS, OF_TOKENS
from tests.broker.authorization.naive import naively_any, naively_decided
from tests.broker.support.requests import create
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.support.in_process import RunningBroker
    from tests.support.raw_client import RawClient

ME, HERE = "User:ANONYMOUS", "127.0.0.1"
CALLER = (ME, HERE)
REFUSALS = {NO_TOPIC, NO_GROUP, NO_CLUSTER, NO_TXN}
SETTINGS = {
    "authorizer.class.name": "ottla.acl",
    "broker.id": "1",
    "group.initial.rebalance.delay.ms": "0",
    # More than there are brokers: a topic that a client may create by asking for it is not made.
    "default.replication.factor": "3",
}
# Their answers have no place for a refusal: an empty answer is one.
SILENT = {(ApiKey.DESCRIBE_LOG_DIRS, version) for version in range(3)}
Rules = list[AclRule]


def _rule(need: Need, **changes: Any) -> AclRule:
    operation, kind, name = need
    pattern = AclPattern(
        kind, changes.pop("name", name), changes.pop("pattern", PatternType.LITERAL)
    )
    return AclRule(pattern, ME, "*", operation, Permission.ALLOW)._replace(**changes)


def situations_of(needs: tuple[Need, ...]) -> Iterator[tuple[str, Rules]]:
    """Named sets of rules."""
    exactly = [_rule(need) for need in needs]
    deny = {"permission": Permission.DENY}
    yield "no rules", []
    yield "exactly what is needed", exactly
    yield "what is needed, as All", [_rule(need, operation=Operation.ALL) for need in needs]
    yield (
        "prefixes",
        [_rule(need, name=need[2][:1], pattern=PatternType.PREFIXED) for need in needs],
    )
    yield "wildcards", [_rule(need, name="*") for need in needs]
    yield "for all users", [_rule(need, principal="User:*") for need in needs]
    yield "another user", [_rule(need, principal="User:eve") for need in needs]
    yield "another host", [_rule(need, host="192.0.2.1") for need in needs]
    yield "this host", [_rule(need, host=HERE) for need in needs]
    yield "this network", [_rule(need, host="127.0.0.0/8") for need in needs]
    yield "another network", [_rule(need, host="192.0.2.0/24") for need in needs]
    yield "denied to all", [*exactly, *(_rule(one, principal="User:*", **deny) for one in needs)]
    for index, need in enumerate(needs):
        others = [one for one in exactly if one is not exactly[index]]
        yield f"without {index}", others
        yield f"only {index}", [exactly[index]]
        yield f"denied {index}", [*exactly, _rule(need, **deny)]
        prefix = {"name": need[2][:1], "pattern": PatternType.PREFIXED}
        yield f"denied {index} by prefix", [*exactly, _rule(need, **prefix, **deny)]
        yield f"denied {index} elsewhere", [*exactly, _rule(need, host="192.0.2.1", **deny)]


def may_by(rules: Rules) -> Any:
    def may(need: Need) -> bool:
        operation, kind, name = need
        if (kind, name) == (TOPIC, ANY_TOPIC):
            return naively_any(rules, (), CALLER, operation, kind, is_open=False)
        return naively_decided(rules, (), CALLER, operation, (kind, name), is_open=False)

    return may


def codes_of(answer: Any) -> set[int]:
    """The refusals in an answer; 0 for each innermost part that has another code or none."""
    inner: set[int] = set()
    own: set[int] = set()
    for name in getattr(answer, "__match_args__", ()):
        value = getattr(answer, name)
        if name in ("error_code", "partition_error_code"):
            own.add(value if value in REFUSALS else OK)
        elif isinstance(value, list):
            for one in value:
                inner |= codes_of(one)
    if inner:
        return inner | (own - {OK})
    return own


class Scene:
    """A broker, its authorizer, and what that was asked."""

    def __init__(self, running: RunningBroker, client: RawClient) -> None:
        self.broker = running.broker
        self.client = client
        authorizer = running.broker.parts.authorization.authorizer
        assert isinstance(authorizer, AclAuthorizer)
        self.authorizer = authorizer
        self.asked: set[Right] = set()
        decide, decide_any = authorizer.decide, authorizer._decide_any

        def noted(*question: Any) -> Any:
            self.asked.add(Right(question[2], question[3]))
            return decide(*question)

        def noted_any(*question: Any) -> Any:
            self.asked.add(Right(question[2], question[3]))
            return decide_any(*question)

        authorizer.decide = noted  # type: ignore[assignment, method-assign]
        authorizer._decide_any = noted_any  # type: ignore[assignment, method-assign]

    def state(self) -> object:
        """What a request that is refused must not change."""
        metadata = self.broker.metadata
        return (
            metadata.topic_names(),
            metadata.image.configs,
            [(str(one.partition), one.log.log_end_offset) for one in self.broker.partitions],
        )


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """These run on asyncio."""
    return "asyncio"


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    """With two topics; the one connection is that of a user without a name."""
    async with running_broker(SETTINGS) as running, running.connect() as client:
        made = Scene(running, client)
        made.authorizer._super_users = frozenset({ME})
        for topic in ("t", "u", "__consumer_offsets", "__transaction_state"):
            await create(client, topic)
        made.authorizer._super_users = frozenset()
        yield made


async def _check(scene: Scene, case: Case, version: int) -> list[str]:
    wrong = []
    for name, rules in situations_of(case.needs):
        scene.authorizer.take(AclIndex.of(dict.fromkeys(rules)))
        expected = case.expected(may_by(rules))
        before = scene.state()
        codes = codes_of(await scene.client.call(version, case.request))
        if codes != expected:
            wrong.append(f"{case.name}, {name}: {codes} and not {expected}")
        if OK not in expected and scene.state() != before:
            wrong.append(f"{case.name}, {name}: refused, and yet something was changed")
    scene.authorizer.take(AclIndex())
    scene.authorizer._super_users = frozenset({ME})
    if codes_of(await scene.client.call(version, case.request)) - {OK}:
        wrong.append(f"{case.name}: a super user is refused")
    scene.authorizer._super_users = frozenset()
    return wrong


async def test_each_api_does_what_is_allowed_and_nothing_else(scene: Scene) -> None:
    """Without rules, with exactly those that are needed, and with one missing or denied."""
    wrong = [line for case in CASES for line in await _check(scene, case, case.version)]

    assert wrong == []


@pytest.mark.soak
async def test_each_version_of_each_api_does_so_too(scene: Scene) -> None:
    """As far as the request can be written down in the version."""
    wrong, count = [], 0
    for case in CASES:
        for version in range(case.version):
            if not TABLE[case.key].serves(version) or (case.key, version) in SILENT:
                continue
            try:
                encode(case.request, version)
            except Exception:
                continue
            count += 1
            wrong += await _check(scene, case, version)

    assert wrong == []
    assert count > 60


def test_each_api_has_a_case_or_a_test_of_its_own() -> None:
    """An API that is added without rights fails at import, one without a case fails here."""
    covered = {case.key for case in CASES} | LISTS | OF_LOGINS | OF_TOKENS | FREE

    assert set(TABLE) - covered == set()
    assert all(TABLE[key].rights == () for key in FREE)


async def test_handlers_ask_for_the_rights_that_are_declared(scene: Scene) -> None:
    """The declaration is what an operator reads, so it must not lie."""
    # The lists of all that a caller may do are no requirement.
    scene.authorizer._bits = lambda *_question: 0  # type: ignore[method-assign]
    for key in sorted({case.key for case in CASES}):
        scene.asked.clear()
        for case in CASES:
            if case.key != key:
                continue
            for _name, rules in situations_of(case.needs):
                scene.authorizer.take(AclIndex.of(dict.fromkeys(rules)))
                await scene.client.call(case.version, case.request)
        declared = set(RIGHTS[key])

        assert scene.asked <= declared, key.name
        extra = declared - scene.asked
        # Asked by other requests of the API: by transactional batches, authorized operations of
        # the cluster, names that are asked for by id, groups that have members.
        assert {(key.name, *one) for one in extra} <= ASKED_ELSEWHERE, key.name


_O = Operation
_TXN = next(case.needs[0][1] for case in CASES if case.name.startswith("END_TXN"))
_CLUSTER = next(case.needs[0][1] for case in CASES if case.name.startswith("CREATE_ACLS"))
ASKED_ELSEWHERE = {
    ("PRODUCE", _O.WRITE, _TXN),
    ("METADATA", _O.DESCRIBE, _CLUSTER),
    ("DELETE_TOPICS", _O.DESCRIBE, TOPIC),
    ("DESCRIBE_TRANSACTIONS", _O.DESCRIBE, TOPIC),
    ("CONSUMER_GROUP_DESCRIBE", _O.DESCRIBE, TOPIC),
}
