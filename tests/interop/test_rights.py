"""The matrix of rights, asked of Apache Kafka: it answers what Ottla is expected to answer."""

from __future__ import annotations

import asyncio
import hmac
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from ottla.broker.api.table import TABLE
from ottla.protocol.acls import CLUSTER_NAME, AclResourceType
from ottla.protocol.apis import ApiKey
from ottla.protocol.compile import encode
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from ottla.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.protocol.messages.describe_acls import DescribeAclsRequest
from ottla.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from ottla.protocol.ports import Address
from tests.broker.authorization.cases import CASES
from tests.broker.authorization.test_matrix import SILENT, codes_of, may_by, situations_of
from tests.broker.security.test_login import log_in
from tests.broker.support.requests import create
from tests.broker.support.token_broker import SECRET, token_settings
from tests.interop.support.apache import ApacheCluster, free_ports
from tests.interop.support.clients import JAVA_VERSIONS, needs
from tests.support.in_process import running_broker
from tests.support.raw_client import RawClient
from tests.support.sasl_broker import jaas

if TYPE_CHECKING:
    from pathlib import Path

    from ottla.protocol.acls import AclRule
    from tests.broker.authorization.case import Case

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1_200)]

ADMIN = b"\0admin\0admin-secret"
ANY = 1
Served = dict[int, tuple[int, int]]
# Not known to Kafka.
OURS = ("this network", "another network")
# Only brokers of Ottla may list offsets as a replica. A KRaft controller tells a client that may
# describe a topic that it is missing, before it looks whether the client may delete it.
ALWAYS_DIFFERENT = {
    "LIST_OFFSETS 9 cluster_action cluster",
    "DELETE_TOPICS 6 delete topic n, delete topic m",
}
# These offsets are in ZooKeeper, which Kafka with KRaft has none of: it refuses the whole request.
OF_ZOOKEEPER = {(ApiKey.OFFSET_COMMIT, 0)}
# Later versions look at the topics that a member subscribes to, and groups have settings.
NOT_IN_3_9 = {
    "ALTER_CONFIGS 2 alter_configs group g",
    "INCREMENTAL_ALTER_CONFIGS 1 alter_configs group g",
    "DESCRIBE_CONFIGS 4 describe_configs group g",
    "CONSUMER_GROUP_HEARTBEAT 1 read group g, describe topic t, describe topic u",
}
DIFFERENT = {"3.9.1": ALWAYS_DIFFERENT | NOT_IN_3_9, "4.1.0": ALWAYS_DIFFERENT}


class GuardedKafka(ApacheCluster):
    """With an authorizer. Brokers and the administrator log in, on listeners of their own; clients
    of the first listener are anonymous."""

    def _settings_of(self, broker_id: int) -> str:
        (self.admin_port,) = free_ports(1)
        login = jaas("PLAIN", username="admin", password="admin-secret", user_admin="admin-secret")
        plain = super()._settings_of(broker_id)
        lines = dict(line.split("=", 1) for line in plain.splitlines())
        admin = f"ADMIN://127.0.0.1:{self.admin_port}"
        lines |= {
            "listeners": f"{lines['listeners']},{admin}",
            "advertised.listeners": f"{lines['advertised.listeners']},{admin}",
            "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,ADMIN:SASL_PLAINTEXT,"
            "PLAINTEXT:PLAINTEXT",
            "inter.broker.listener.name": "ADMIN",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.admin.plain.sasl.jaas.config": login,
            "listener.name.controller.plain.sasl.jaas.config": login,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin",
            "group.coordinator.rebalance.protocols": "classic,consumer",
            # A topic that a client may create by asking for it is not made.
            "default.replication.factor": "3",
        }
        return "".join(f"{name}={value}\n" for name, value in lines.items())


def _creation(rule: AclRule) -> AclCreation:
    kind, name, pattern_type = rule.pattern
    return AclCreation(
        kind, name, pattern_type, rule.principal, rule.host, rule.operation, rule.permission
    )


async def _put_in_force(admin: RawClient, rules: list[AclRule]) -> None:
    """Return when the broker decides by exactly these rules."""
    everything = DeleteAclsFilter(ANY, None, ANY, None, None, ANY, ANY)
    await admin.call(3, DeleteAclsRequest([everything]))
    if rules:
        made = await admin.call(3, CreateAclsRequest([_creation(rule) for rule in rules]))
        assert {result.error_code for result in made.results} == {0}
    async with asyncio.timeout(30):
        while True:
            found = await admin.call(3, DescribeAclsRequest(ANY, None, ANY, None, None, ANY, ANY))
            if sum(len(one.acls) for one in found.resources) == len(set(rules)):
                return
            await asyncio.sleep(0.01)


async def _coordinators(admin: RawClient) -> None:
    """Return when groups and transactions have a coordinator."""
    async with asyncio.timeout(60):
        for key_type, key in ((0, "g"), (0, "h"), (1, "x"), (1, "y")):
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
            while (await admin.call(4, request)).coordinators[0].error_code:
                await asyncio.sleep(0.1)


def _cannot_be_made(rule: AclRule) -> bool:
    """The cluster has one name, which no prefix stands for."""
    kind, name, _pattern_type = rule.pattern
    return kind is AclResourceType.CLUSTER and name != CLUSTER_NAME


def _versions_for(case: Case, served: Served) -> list[int]:
    """Those that both know and that the request can be written down in, the newest first."""
    first, last = served.get(case.key, (0, -1))
    found = []
    for version in range(min(case.version, last), first - 1, -1):
        if not TABLE[case.key].serves(version) or (case.key, version) in SILENT | OF_ZOOKEEPER:
            continue
        with suppress(Exception):
            encode(case.request, version)
            found.append(version)
    return found


async def _differences(
    plain: RawClient, admin: RawClient, different: set[str], *, newest: bool
) -> tuple[list[str], set[tuple[ApiKey, int]]]:
    """Of the newest version of each request, or of all older ones."""
    versions = await plain.call(3, ApiVersionsRequest("raw", "1"))
    served = {one.api_key: (one.min_version, one.max_version) for one in versions.api_keys}
    wrong, asked = [], set()
    chosen = slice(0, 1) if newest else slice(1, None)
    questions = [
        (case, version)
        for case in CASES
        if case.name not in different
        for version in _versions_for(case, served)[chosen]
    ]
    for case, version in questions:
        asked.add((case.key, version))
        for name, rules in situations_of(case.needs):
            once = list(dict.fromkeys(rules))
            if name in OURS or any(map(_cannot_be_made, once)):
                continue
            await _put_in_force(admin, once)
            expected = case.expected(may_by(once))
            found = codes_of(await plain.call(version, case.request))
            if found != expected:
                wrong.append(f"{case.name} (version {version}), {name}: {found}, not {expected}")
    return wrong, asked


async def _compared(
    version: str, folder: Path, *, newest: bool
) -> tuple[list[str], set[tuple[ApiKey, int]]]:
    """What a broker of that version answers otherwise, and what it was asked."""
    needs("java", "mvn")
    with GuardedKafka(version, folder) as kafka:
        host, _separator, port = kafka.bootstrap_servers.partition(":")
        async with RawClient(host, int(port)) as plain, RawClient(host, kafka.admin_port) as admin:
            answer: Any = await log_in(admin, ADMIN)
            assert answer.error_code == 0
            for topic in ("t", "u"):
                await create(admin, topic)
            await _coordinators(admin)
            return await _differences(plain, admin, DIFFERENT[version], newest=newest)


@pytest.mark.parametrize("version", JAVA_VERSIONS)
async def test_apache_kafka_answers_what_our_answers_are_compared_with(
    version: str, tmp_path: Path
) -> None:
    """An expectation that is wrong in the same way as the code would not be noticed otherwise."""
    wrong, asked = await _compared(version, tmp_path, newest=True)
    assert wrong == []
    assert len(asked) > 35


@pytest.mark.slow
async def test_apache_kafka_answers_so_in_older_versions_of_each_request(tmp_path: Path) -> None:
    """Of 3.9, which serves the most of them."""
    wrong, asked = await _compared(JAVA_VERSIONS[0], tmp_path, newest=False)
    assert wrong == []
    assert len(asked) > 60


class TokenKafka(GuardedKafka):
    """Apache Kafka with the same secret, users and super user."""

    def _settings_of(self, broker_id: int) -> str:
        lines = dict(line.split("=", 1) for line in super()._settings_of(broker_id).splitlines())
        users = {f"user_{name}": f"{name}-secret" for name in ("admin", "alice", "bob")}
        lines |= {
            "delegation.token.secret.key": SECRET,
            "listener.name.admin.plain.sasl.jaas.config": jaas(
                "PLAIN", username="admin", password="admin-secret", **users
            ),
        }
        return "".join(f"{name}={value}\n" for name, value in lines.items())


Codes = list[tuple[str, int]]


async def answers_of(where: Address) -> Codes:
    """What alice and bob are answered to the same requests: names and error codes."""
    said: Codes = []
    async with RawClient(*where) as alice, RawClient(*where) as bob:
        for client, user in ((alice, "alice"), (bob, "bob")):
            await log_in(client, f"\0{user}\0{user}-secret".encode())

        async def ask(name: str, client: RawClient, version: int, request: Any) -> Any:
            answer = await client.call(version, request)
            said.append((name, answer.error_code))
            return answer

        async def known(client: RawClient, token_hmac: bytes, *, gone: bool = False) -> None:
            """Apache's controller tells its brokers later."""
            async with asyncio.timeout(60):
                while True:
                    listed = await client.call(3, DescribeDelegationTokenRequest(None))
                    if any(one.hmac == token_hmac for one in listed.tokens) is not gone:
                        return
                    await asyncio.sleep(0.05)

        renewers = [CreatableRenewers("User", "bob")]
        made = await ask("own", alice, 3, CreateDelegationTokenRequest(None, None, renewers, -1))
        first = await ask("version 1", alice, 1, CreateDelegationTokenRequest(max_lifetime_ms=5))
        own = await ask("bob's", bob, 3, CreateDelegationTokenRequest(max_lifetime_ms=60_000))
        for client, token in ((alice, made), (bob, made), (bob, own)):
            await known(client, token.hmac)
        others = CreateDelegationTokenRequest("User", "bob", [], -1)
        await ask("another's", alice, 3, others)
        group = CreateDelegationTokenRequest(None, None, [CreatableRenewers("Group", "g")], -1)
        await ask("group", alice, 3, group)
        assert len(made.hmac) == len(hmac.digest(b"", b"", "sha512"))
        expected = hmac.digest(SECRET.encode(), made.token_id.encode(), "sha512")
        assert made.hmac == expected
        day_ms = 86_400_000
        said.append(("lifetime", made.max_timestamp_ms - made.issue_timestamp_ms - 7 * day_ms))
        said.append(("expiry", made.expiry_timestamp_ms - made.issue_timestamp_ms - day_ms))
        said.append(("short", first.expiry_timestamp_ms - first.issue_timestamp_ms - 5))
        for version in (1, 2):
            for period_ms in (-1, 60_000):
                renewal = RenewDelegationTokenRequest(made.hmac, period_ms)
                await ask("renewed by its renewer", bob, version, renewal)
                expiry = ExpireDelegationTokenRequest(made.hmac, 60_000)
                await ask("expired later", alice, version, expiry)
        # The first one's five milliseconds are over, by the clock of any broker.
        await asyncio.sleep(0.1)
        for what in (RenewDelegationTokenRequest, ExpireDelegationTokenRequest):
            await ask("another's hmac", alice, 2, what(own.hmac, -1))
            await ask("unknown hmac", alice, 2, what(bytes(64), -1))
            await ask("no hmac", alice, 2, what(b"", -1))
            await ask("expired", alice, 2, what(first.hmac, 60_000))
        for version in (1, 2, 3):
            everything = await ask("list", bob, version, DescribeDelegationTokenRequest(None))
            said.append(("listed", len(everything.tokens)))
            nothing = await ask("list of none", bob, version, DescribeDelegationTokenRequest([]))
            said.append(("listed", len(nothing.tokens)))
        await ask("expired now", bob, 2, ExpireDelegationTokenRequest(own.hmac, -1))
        await known(bob, own.hmac, gone=True)
        await ask("expired again", bob, 2, ExpireDelegationTokenRequest(own.hmac, -1))
    return said


@pytest.mark.parametrize("version", JAVA_VERSIONS)
async def test_apache_kafka_answers_the_same_about_tokens(version: str, tmp_path: Path) -> None:
    """Rights, lifetimes and errors of the four APIs, in each version that both serve."""
    needs("java", "mvn")
    with TokenKafka(version, tmp_path) as apache:
        theirs = await answers_of(Address("127.0.0.1", apache.admin_port))
    settings = token_settings(authorizer_class_name="ottla.acl")
    async with running_broker(settings) as running:
        ours = await answers_of(running.broker.address)
    assert ours == theirs
