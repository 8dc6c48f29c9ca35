"""A broker whose audit log cannot be written: changes are refused, records go on."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla.broker.metrics.audit import audit_families
from ottla.broker.metrics.exposition import render
from ottla.broker.system.memory_disk import MemoryDisk
from ottla.protocol.errors import ErrorCode
from ottla.wire.errors import RequestRefused
from tests.support.sasl_broker import running_broker, sasl_settings

if TYPE_CHECKING:
    from tests.support.in_process import RunningBroker

AUDIT = "/audit.log"
SETTINGS = sasl_settings(
    authorizer_class_name="ottla.acl",
    super_users="User:alice;User:ANONYMOUS",
    ottla_audit_log=AUDIT,
)
ALICE = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "alice",
    "sasl.password": "alice-secret",
}
CHANGE = ottla.ConfigChange("retention.ms", ottla.ConfigOperation.SET, "1000")


class LosesTheAuditLog(MemoryDisk):
    """The file system of the audit log is gone while ``is_lost``; the others are not."""

    is_lost = False

    def exists(self, path: str) -> bool:
        return not (path == AUDIT and self.is_lost) and super().exists(path)

    def open(self, path: str, *, create: bool = False) -> Any:
        if path == AUDIT and self.is_lost:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return super().open(path, create=create)


def _has_failed(running: RunningBroker) -> bool:
    """What an alarm on the metrics page sees."""
    page = "".join(render(audit_families(running.broker.parts.audit, None)))
    return "ottla_audit_log_failed 1\n" in page


async def _send(where: str) -> None:
    async with ottla.Producer(where, security=ALICE) as producer:
        await producer.send("t", b"x", partition=0)


async def test_changes_wait_for_the_audit_log_and_records_do_not() -> None:
    """Also those of a super user. Once the file can be written again, so can the cluster."""
    disk = LosesTheAuditLog()
    async with running_broker(SETTINGS, disk=disk) as running:
        where = str(running.broker.address)
        async with ottla.Admin(where, security=ALICE) as admin:
            await admin.create_topic(ottla.NewTopic("t", 1))
            assert not _has_failed(running)
            disk.is_lost = True
            for change in (
                admin.create_topic(ottla.NewTopic("u", 1)),
                admin.alter_configs(ottla.ResourceType.TOPIC, "t", [CHANGE]),
            ):
                with pytest.raises(RequestRefused) as refused:
                    await change
                assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
            (deleted,) = (await admin.delete_topics(["t"])).values()
            assert deleted is not None
            assert deleted.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
            assert _has_failed(running)
            await _send(where)
            assert [topic.name for topic in await admin.list_topics()] == ["t"]

            disk.is_lost = False
            await admin.create_topic(ottla.NewTopic("u", 1))
            assert {topic.name for topic in await admin.list_topics()} == {"t", "u"}
            assert not _has_failed(running)


async def test_an_operator_may_prefer_changes_without_lines() -> None:
    """Then the log of the process has the lines, and the alarm is the same."""
    disk = LosesTheAuditLog()
    settings = {**SETTINGS, "ottla.audit.log.required": "false"}
    async with running_broker(settings, disk=disk) as running:
        disk.is_lost = True
        async with ottla.Admin(str(running.broker.address), security=ALICE) as admin:
            await admin.create_topic(ottla.NewTopic("t", 1))
            assert _has_failed(running)
