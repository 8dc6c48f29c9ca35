"""Java's ``kafka-acls`` manages the rules of a broker that has an authorizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.interop.conftest import Bootstrap
from tests.interop.support.clients import JAVA_VERSIONS, needs
from tests.interop.test_java_tools import Tools
from tests.support.broker_process import BrokerProcess

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.interop
OPTIONS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.mark.parametrize("version", JAVA_VERSIONS)
def test_rules_are_added_listed_and_removed(version: str, tmp_path: Path) -> None:
    """Literal, prefixed and for all; what a tool adds as a role is several rules."""
    needs("java", "mvn")
    old = "kafka.admin.AclCommand"
    tool = old if version.startswith("3.") else "org.apache.kafka.tools.AclCommand"
    with BrokerProcess(tmp_path / "data", options=OPTIONS) as broker:
        tools = Tools(version, Bootstrap(broker.address), tmp_path)
        tools.run(tool, "--add", "--allow-principal", "User:app", "--producer", "--topic", "orders")
        tools.run(
            *(tool, "--add", "--allow-principal", "User:app", "--consumer", "--topic", "logs-"),
            *("--group", "g", "--resource-pattern-type", "prefixed"),
        )
        tools.run(
            *(tool, "--add", "--deny-principal", "User:eve", "--operation", "All"),
            *("--topic", "*", "--deny-host", "192.0.2.1"),
        )
        listed = tools.run(tool, "--list")
        of_topic = tools.run(
            tool, "--list", "--topic", "logs-1", "--resource-pattern-type", "match"
        )
        everything = ("--force", "--topic", "orders", "--resource-pattern-type", "any")
        tools.run(tool, "--remove", *everything)
        left = tools.run(tool, "--list")

    assert listed.count("principal=User:app") == 6
    for words in (
        "resourceType=TOPIC, name=orders, patternType=LITERAL",
        "resourceType=TOPIC, name=logs-, patternType=PREFIXED",
        "resourceType=GROUP, name=g, patternType=PREFIXED",
        "principal=User:eve, host=192.0.2.1, operation=ALL, permissionType=DENY",
    ):
        assert words in listed
    assert "name=logs-" in of_topic
    assert "name=*" in of_topic
    assert "name=orders" not in of_topic + left
    assert "name=logs-" in left
