"""``ottla secure znodes``: the znodes of an open cluster are closed, and opened again."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import make_digest_acl

import ottla
from tests.support.broker_process import BrokerProcess
from tests.zookeeper.shared import fresh_place
from tests.zookeeper.test_protected_nodes import LIMIT_S, _done_by_a_stranger, _schemes, _use

if TYPE_CHECKING:
    from pathlib import Path

LOGIN = {"ottla.zookeeper.digest": "kafka:secret"}


def run(folder: Path, place: str, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the verb to its end, with the settings of a broker."""
    settings = {"zookeeper.connect": place, "broker.id": "1", **LOGIN, **more}
    file = folder / "broker.properties"
    file.write_text("".join(f"{name}={text}\n" for name, text in settings.items()))
    file.chmod(0o600)
    return subprocess.run(
        [sys.executable, "-m", "ottla", "secure", "znodes", "--config", str(file), *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def _client(place: str, login: str = "kafka:secret") -> KazooClient:
    client = KazooClient(place, auth_data=[("digest", login)])
    client.start(LIMIT_S)
    return client


def _told(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.stdout)
    return found


async def test_an_open_cluster_is_closed_while_it_runs_and_opened_again(tmp_path: Path) -> None:
    """Tried (A-66): to read and change each znode as a stranger, before and after. Brokers with the
    login go on, and a second run finds no more to do."""
    place = fresh_place()
    options = {
        "zookeeper.connect": place,
        "broker.id": "1",
        "zookeeper.set.acl": "true",
        "authorizer.class.name": "ottla.acl",
        "super.users": "User:ANONYMOUS",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        **LOGIN,
    }
    open_before = {**options, "zookeeper.set.acl": "false"}
    with BrokerProcess(tmp_path / "data", options=open_before) as broker:
        await _use(broker.address)
    with BrokerProcess(tmp_path / "data", options=options) as broker:
        before = await asyncio.to_thread(run, tmp_path, place, "--check", "--format", "json")
        closing = await asyncio.to_thread(run, tmp_path, place, "--with-consumers")
        again = await asyncio.to_thread(
            run, tmp_path, place, "--with-consumers", "--format", "json"
        )
        schemes = await asyncio.to_thread(_schemes, place)
        assert closing.returncode == 0, closing.stderr
        done = await asyncio.to_thread(_done_by_a_stranger, place, list(schemes))
        async with ottla.Admin(broker.address) as admin:
            await admin.create_topic(ottla.NewTopic("later", 2))
        looked = await asyncio.to_thread(run, tmp_path, place, "--with-consumers", "--check")
        opening = await asyncio.to_thread(run, tmp_path, place, "--open", "--with-consumers")
        opened = await asyncio.to_thread(_schemes, place)

    assert before.returncode == 1
    assert len(_told(before)["not_closed"]) > 30
    assert again.returncode == 0, again.stderr
    assert _told(again)["changed"] == 0
    assert _told(again)["znodes"] == len(schemes) > 30
    assert {path: found for path, found in schemes.items() if found != {"digest"}} == {}
    assert done == []
    assert looked.returncode == 0, looked.stderr
    assert opening.returncode == 0, opening.stderr
    assert set(map(frozenset, opened.values())) == {frozenset({"world"})}


def _make(place: str, *paths: str, login: str = "kafka:secret", **more: Any) -> None:
    address, _, chroot = place.partition("/")
    client = _client(address, login)
    for path in paths:
        client.ensure_path(f"/{chroot}{path.rpartition('/')[0]}")
        client.create(f"/{chroot}{path}", **more)
    client.stop()
    client.close()


def _rights(place: str, path: str) -> set[tuple[str, int]]:
    client = _client(place)
    try:
        return {(one.id.scheme, one.perms) for one in client.get_acls(path)[0]}
    finally:
        client.stop()
        client.close()


def test_what_others_may_read_has_no_secrets(tmp_path: Path) -> None:
    """With ottla.zookeeper.others.read, as in Kafka: users, settings of brokers and tokens stay
    closed."""
    place = fresh_place()
    secret = ("/config/users/alice", "/config/brokers/1", "/delegation_token/tokens/x")
    shown = ("/config/topics/t", "/brokers/ids", "/kafka-acl/Topic")
    _make(place, *secret, *shown)
    done = run(tmp_path, place, **{"ottla.zookeeper.others.read": "true"})

    assert done.returncode == 0, done.stderr
    for path in (*secret, *shown):
        world = set() if path in secret else {("world", 1)}
        assert _rights(place, path) == {("digest", 31), *world}, path


def test_znodes_of_others_and_groups_of_the_first_consumers_are_left(tmp_path: Path) -> None:
    """They would lose what they need. The command tells of them."""
    place = fresh_place()
    _make(place, "/brokers/topics/t", "/consumers/g/offsets", "/another/program")
    done = run(tmp_path, place)

    assert done.returncode == 0, done.stderr
    assert "not touched: /another, /consumers" in done.stdout
    assert _rights(place, "/") == _rights(place, "/brokers/topics/t") == {("digest", 31)}
    assert _rights(place, "/consumers/g") == _rights(place, "/another") == {("world", 31)}


def test_znodes_of_another_user_are_told_and_the_rest_is_closed(tmp_path: Path) -> None:
    """After a change of the password, for example."""
    place = fresh_place()
    _make(place, "/brokers/topics/t", "/config/topics")
    old = [make_digest_acl("kafka", "old", all=True)]
    _make(place, "/config/users", login="kafka:old", acl=old)
    done = run(tmp_path, place)

    assert done.returncode == 1
    assert "another user owns /config/users" in done.stderr
    assert _rights(place, "/config/topics") == {("digest", 31)}
    client = _client(place)
    try:
        client.get("/config/users")
    except NoAuthError:
        pass
    else:
        raise AssertionError("it belongs to the other user")
    finally:
        client.stop()
        client.close()


def test_a_wrong_place_and_settings_without_a_login_are_refused(tmp_path: Path) -> None:
    """A mistyped chroot must not be created, nor a cluster count as closed without an owner."""
    place = fresh_place()
    missing = run(tmp_path, place)
    without = run(tmp_path, place, **{"ottla.zookeeper.digest": ""})

    assert missing.returncode == 1
    assert f"has no /{place.partition('/')[2]}: check zookeeper.connect" in missing.stderr
    assert without.returncode == 2
    assert "has no ottla.zookeeper.digest" in without.stderr


async def test_brokers_that_run_open_are_not_locked_out(tmp_path: Path) -> None:
    """One without the login could not change a znode any more: no topic could be created."""
    place = fresh_place()
    options = {"zookeeper.connect": place, "broker.id": "1"}
    with BrokerProcess(tmp_path / "data", options=options) as broker:
        done = await asyncio.to_thread(run, tmp_path, place)
        async with ottla.Admin(broker.address) as admin:
            await admin.create_topic(ottla.NewTopic("later", 2))

    assert done.returncode == 1
    assert "broker 1 would be locked out" in done.stderr
    assert done.stdout == ""
