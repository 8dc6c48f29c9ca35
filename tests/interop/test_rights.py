"""The matrix of rights, asked of Apache Kafka: it answers what Ottla is expected to answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from ottla.protocol.acls import CLUSTER_NAME, AclResourceType
from ottla.protocol.compile import encode
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.protocol.messages.describe_acls import DescribeAclsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.broker.authorization.cases import CASES
from tests.broker.authorization.test_matrix import codes_of, may_by, situations_of
from tests.broker.security.test_login import log_in
from tests.broker.support.requests import create
from tests.interop.support.apache import ApacheCluster, free_ports
from tests.interop.support.clients import JAVA_VERSIONS, needs
from tests.support.raw_client import RawClient
from tests.support.sasl_broker import jaas

if TYPE_CHECKING:
    from pathlib import Path

    from ottla.protocol.acls import AclRule
    from ottla.protocol.apis import ApiKey
    from tests.broker.authorization.case import Case

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1_200)]

ADMIN = b"\0admin\0admin-secret"
ANY = 1
# Not known to Kafka.
OURS = ("this network", "another network")
# Only brokers of Ottla may list offsets as a replica. A KRaft controller tells a client that may
# describe a topic that it is missing, before it looks whether the client may delete it.
ALWAYS_DIFFERENT = {
    "LIST_OFFSETS 9 cluster_action cluster",
    "DELETE_TOPICS 6 delete topic n, delete topic m",
}
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


def _version_for(case: Case, served: dict[int, int]) -> int | None:
    """The newest version that both know and that the request can be written down in."""
    if case.key not in served:
        return None
    version = min(case.version, served[case.key])
    try:
        encode(case.request, version)
    except Exception:
        return None
    return version


async def _differences(
    plain: RawClient, admin: RawClient, different: set[str]
) -> tuple[list[str], set[ApiKey]]:
    versions = await plain.call(3, ApiVersionsRequest("raw", "1"))
    served = {one.api_key: one.max_version for one in versions.api_keys}
    wrong, asked = [], set()
    for case in CASES:
        version = _version_for(case, served)
        if version is None or case.name in different:
            continue
        asked.add(case.key)
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


@pytest.mark.parametrize("version", JAVA_VERSIONS)
async def test_apache_kafka_answers_what_our_answers_are_compared_with(
    version: str, tmp_path: Path
) -> None:
    """An expectation that is wrong in the same way as the code would not be noticed otherwise."""
    needs("java", "mvn")
    with GuardedKafka(version, tmp_path) as kafka:
        host, _separator, port = kafka.bootstrap_servers.partition(":")
        async with RawClient(host, int(port)) as plain, RawClient(host, kafka.admin_port) as admin:
            answer: Any = await log_in(admin, ADMIN)
            assert answer.error_code == 0
            for topic in ("t", "u"):
                await create(admin, topic)
            await _coordinators(admin)
            wrong, asked = await _differences(plain, admin, DIFFERENT[version])

    assert wrong == []
    assert len(asked) > 35
