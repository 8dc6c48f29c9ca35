"""``ottla profile``: keeps settings in files, and shows no secret."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from ottla.client.cli.connection import given
from ottla.client.settings.profiles import is_secret

if TYPE_CHECKING:
    from pathlib import Path

    from tests.client.cli.command import Ottla


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without profiles."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("OTTLA_PROFILE", raising=False)
    monkeypatch.delenv("OTTLA_BOOTSTRAP", raising=False)
    return tmp_path


def test_profile_is_created_listed_used_and_deleted(ottla: Ottla) -> None:
    """The whole life of a profile."""
    assert ottla("profile", "create", "prod", "-b", "a:1", "-X", "client.id=x").status == 0
    assert ottla("profile", "create", "dev", "-b", "b:1").status == 0
    assert ottla("profile", "use", "prod").status == 0
    assert ottla("profile", "list").output == b"  dev\n* prod\n"
    listed = json.loads(ottla("profile", "list", "--json").output)
    assert listed == [{"name": "dev", "current": False}, {"name": "prod", "current": True}]
    shown = json.loads(ottla("profile", "show", "prod", "--json").output)
    assert shown == {"bootstrap.servers": "a:1", "client.id": "x"}
    assert ottla("profile", "use", "--none").status == 0
    assert ottla("profile", "delete", "prod").status == 0
    assert ottla("profile", "list").output == b"  dev\n"


def test_profile_is_made_from_a_properties_file(ottla: Ottla, tmp_path: Path) -> None:
    """The file that Kafka's tools take is enough."""
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=a:1\nlinger.ms=3\n", "utf-8")
    assert ottla("profile", "create", "prod", "--command-config", str(file)).status == 0
    shown = json.loads(ottla("profile", "show", "prod", "--json").output)
    assert shown == {"bootstrap.servers": "a:1", "linger.ms": "3"}


def test_commands_reach_the_cluster_of_the_profile(ottla: Ottla, broker: str) -> None:
    """By option, and after it became the current one."""
    assert ottla("profile", "create", "here", "-b", broker).status == 0
    described = ottla("cluster", "info", "--profile", "here", "--json")
    assert described.status == 0, described.errors
    assert ottla("profile", "use", "here").status == 0
    assert ottla("cluster", "info", "--json").output == described.output


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("create prod", "a profile without settings"),
        ("create prod -X linger.mss=1", "did you mean 'linger.ms'"),
        ("create prod -b a:b", "a:b"),
        ("create ../prod -b a:1", "named by letters"),
        ("show prod", "there is no profile 'prod'"),
        ("use", "name the profile to use, or give --none"),
        ("create prod --command-config missing", "missing: no such file"),
    ],
)
def test_mistake_is_one_sentence(ottla: Ottla, words: str, sentence: str) -> None:
    """It says what is wrong and writes no profile."""
    ended = ottla("profile", *words.split())
    assert ended.status == 2
    assert sentence in ended.errors
    assert ended.errors.count("\n") == 1


def test_verbs_refuse_an_unknown_profile_and_a_missing_file(ottla: Ottla) -> None:
    """Before they reach any cluster."""
    for option in (("--profile", "prod"), ("--command-config", "missing")):
        ended = ottla("cluster", "info", *option)
        assert ended.status == 2
        assert ended.errors.startswith("ottla: ")
        assert ended.errors.count("\n") == 1


def test_settings_of_one_command_do_not_reach_the_next(ottla: Ottla, broker: str) -> None:
    """Programs call commands one after another in one process."""
    assert ottla("cluster", "info", "-b", broker, "-X", "client.id=a").status == 0
    assert given() == {}


def test_settings_may_stand_before_and_after_the_verb(ottla: Ottla, broker: str) -> None:
    """Both count: argparse alone would drop the first."""
    before = ottla("-X", "client.id=a", "cluster", "info", "-b", broker, "-X", "linger.ms=1")
    assert before.status == 0, before.errors
    refused = ottla("-X", "client.idd=a", "cluster", "info", "-b", broker, "-X", "linger.ms=1")
    assert (refused.status, "client.idd" in refused.errors) == (2, True)


@pytest.mark.parametrize(
    "name",
    [
        "sasl.password",
        "sasl.jaas.config",
        "ssl.key.password",
        "ssl.keystore.key",
        "ssl.key.pem",
        "sasl.oauthbearer.client.credentials.client.secret",
    ],
)
def test_secrets_are_known_by_their_names(name: str) -> None:
    """``show`` hides their values."""
    assert is_secret(name)


@pytest.mark.parametrize("name", ["sasl.username", "ssl.key.location", "ssl.ca.location", "acks"])
def test_other_settings_are_shown(name: str) -> None:
    """A path to a key is no secret."""
    assert not is_secret(name)
