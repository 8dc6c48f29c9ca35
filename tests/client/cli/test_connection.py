"""How a command learns of the cluster: options, files, environment, profile, in that order."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import pytest

from ottla.client.cli.connection import given, resolve
from ottla.client.cli.settings import command_config, producer_config
from ottla.client.settings.profiles import ProfileError, Profiles, directory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


def options(
    bootstrap: str | None = None,
    *,
    properties: Sequence[tuple[str, str]] = (),
    verb_properties: Sequence[tuple[str, str]] = (),
    file: Path | None = None,
    profile: str | None = None,
) -> argparse.Namespace:
    return argparse.Namespace(
        bootstrap=bootstrap,
        properties=properties,
        verb_properties=verb_properties,
        command_config=None if file is None else str(file),
        profile=profile,
    )


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """The settings of these tests must not reach others."""
    yield
    resolve(options(), {"XDG_CONFIG_HOME": "/nonexistent"})


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment without profiles."""
    return {"XDG_CONFIG_HOME": str(tmp_path)}


@pytest.fixture
def profiles(home: dict[str, str]) -> Profiles:
    return Profiles(directory(home))


def test_address_is_the_options_then_the_environments_then_the_profiles(
    home: dict[str, str], profiles: Profiles
) -> None:
    """What is typed counts more than what is kept."""
    profiles.write("prod", {"bootstrap.servers": "profile:1"})
    found = []
    for change in ({}, {"OTTLA_PROFILE": "prod"}, {"OTTLA_BOOTSTRAP": "variable:1"}):
        home |= change
        arguments = options()
        resolve(arguments, home)
        found.append(arguments.bootstrap)
    arguments = options("option:1")
    resolve(arguments, home)
    assert [*found, arguments.bootstrap] == [
        "127.0.0.1:9092",
        "profile:1",
        "variable:1",
        "option:1",
    ]


def test_strongest_source_of_a_setting_counts(
    home: dict[str, str], profiles: Profiles, tmp_path: Path
) -> None:
    """A file replaces the current profile as a whole; single settings replace single ones."""
    file = tmp_path / "client.properties"
    file.write_text("sasl.username=file\nclient.id=file\n", "utf-8")
    profiles.write("prod", {"sasl.username": "profile", "sasl.password": "kept"})
    profiles.use("prod")
    resolve(options(), home)
    assert given() == {"sasl.username": "profile", "sasl.password": "kept"}
    home["OTTLA_SASL_USERNAME"] = "variable"
    resolve(options(), home)
    assert given() == {"sasl.username": "variable", "sasl.password": "kept"}
    resolve(options(file=file), home)
    assert given() == {"sasl.username": "file", "client.id": "file"}
    words = [("sasl.username", "first")]
    resolve(options(file=file, properties=words, verb_properties=[("client.id", "x")]), home)
    assert given() == {"sasl.username": "first", "client.id": "x"}


def test_other_variables_are_no_settings(home: dict[str, str]) -> None:
    """A variable that is left over must not change what a command does."""
    home |= {"OTTLA_PURE": "1", "OTTLA_WORKER_IDLE_S": "1", "SASL_USERNAME": "x"}
    resolve(options(), home)
    assert given() == {}


def test_given_settings_reach_each_kind_of_client(home: dict[str, str]) -> None:
    """One file serves producers, consumers and admins."""
    resolve(options(properties=[("linger.ms", "7"), ("client.id", "me")]), home)
    assert producer_config("all", "none").linger_ms == 7
    assert producer_config("all", "none").client_id == "me"
    assert command_config().client_id == "me"


@pytest.mark.parametrize("timeout_s", [1, 3, 10, 30, 0])
def test_each_timeout_of_produce_leaves_time_for_a_request(
    home: dict[str, str], timeout_s: int
) -> None:
    """A short one shortens the requests."""
    resolve(options(), home)
    config = producer_config("all", "none", timeout_s)
    assert config.request_timeout_ms == (min(10_000, timeout_s * 500) or 10_000)


def test_unknown_setting_is_refused_with_the_similar_name(home: dict[str, str]) -> None:
    """A mistyped setting would silently have no effect."""
    resolve(options(properties=[("linger.mss", "7")]), home)
    with pytest.raises(ProfileError, match="did you mean 'linger\\.ms'"):
        producer_config("all", "none")


def test_unknown_profile_is_refused(home: dict[str, str]) -> None:
    """The command must not reach another cluster than the one that is meant."""
    with pytest.raises(ProfileError, match="there is no profile 'prod'"):
        resolve(options(profile="prod"), home)
