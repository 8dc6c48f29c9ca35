"""What a test cluster with users shows: no password in any repr, answer or traceback (SEC-16).

Its log and its data directories are scanned whenever such a cluster stops."""

from __future__ import annotations

import gc
import traceback
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla import sync
from ottla.broker.testing.members import Members
from ottla.wire.errors import AuthenticationFailed
from tests.support.hostile.secret_scan import hits

if TYPE_CHECKING:
    from collections.abc import Iterator

PASSWORD, WRONG = "m4rk-of-alice", "m4rk-of-a-wrong-one"


@pytest.fixture(scope="module", params=["sasl_ssl", "sasl_plaintext"])
def cluster(request: pytest.FixtureRequest) -> Iterator[ottla.Cluster]:
    """Two brokers with users of their own, and alice."""
    with ottla.Cluster(
        brokers=2, security=request.param, users={"alice": PASSWORD}, acls=[]
    ) as made:
        yield made


def _secrets(cluster: ottla.Cluster) -> list[str]:
    """The passwords of alice, of the administrator and of the brokers."""
    assert cluster._security is not None
    found = sorted(set(cluster._security.passwords.values()))
    assert PASSWORD in found
    assert len(found) == 4
    return [*found, WRONG]


def _shown(*objects: object) -> str:
    return "\n".join(text for one in objects for text in (repr(one), str(one), f"{one}"))


def test_no_repr_of_a_cluster_and_its_brokers_shows_a_password(cluster: ottla.Cluster) -> None:
    """Also of the settings that brokers parse, and of all objects of Ottla that are in memory."""
    assert isinstance(cluster._members, Members)
    brokers: list[Any] = [
        one.broker  # type: ignore[attr-defined]
        for one in cluster._members.nodes.values()
    ]
    named = [cluster, cluster._security, cluster._members, *brokers]
    named += [broker.config for broker in brokers]
    others = [one for one in gc.get_objects() if str(type(one).__module__).startswith("ottla.")]

    assert len(others) > 1_000
    assert hits(_secrets(cluster), {"reprs": _shown(*named)}) == []
    assert hits(_secrets(cluster), {"memory": "\n".join(map(_careful, others))}) == []


def _careful(one: object) -> str:
    try:
        return repr(one)
    except Exception as error:
        # Half-made objects of other tests.
        return type(error).__name__


async def test_no_answer_about_settings_shows_a_password(cluster: ottla.Cluster) -> None:
    """To the administrator, who may see all of them."""
    assert isinstance(cluster._members, Members)
    settings = cluster.client_settings()
    servers = str(settings.pop("bootstrap.servers"))
    async with ottla.Admin(servers, security=settings) as admin:
        found = [
            await admin.describe_configs(ottla.ResourceType.BROKER, str(node_id))
            for node_id in cluster.brokers
        ]
        users = await admin.users.describe_users()

    assert "sasl.jaas.config" in repr(found)
    assert hits(_secrets(cluster), {"settings": repr(found), "users": repr(users)}) == []


def test_the_traceback_of_a_refused_login_shows_no_password(cluster: ottla.Cluster) -> None:
    """Nor that of a client whose settings are given in the wrong place."""
    settings = cluster.client_settings(user="alice")
    servers = str(settings.pop("bootstrap.servers"))
    del settings["sasl.jaas.config"]
    settings |= {"sasl.username": "alice", "sasl.password": WRONG}
    with (
        pytest.raises(AuthenticationFailed) as raised,
        sync.Admin(servers, security=settings) as admin,
    ):
        admin.list_topics()
    with pytest.raises(TypeError, match="of type dict") as misplaced:
        sync.Admin(servers, settings)  # type: ignore[arg-type]
    shown = [
        line
        for error in (raised.value, misplaced.value)
        for line in traceback.format_exception(error)
    ]

    assert hits(_secrets(cluster), {"traceback": "\n".join(shown)}) == []
