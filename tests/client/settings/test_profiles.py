"""Profiles are files of their user: written whole, readable by that user only, found by name."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from ottla.client.settings.profiles import ProfileError, Profiles, directory, read_properties

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = {"bootstrap.servers": "a:1,b:2", "sasl.password": r" p#=:\ü"}


def test_profile_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Also values with blanks, signs of the format and letters outside ASCII."""
    profiles = Profiles(tmp_path / "ottla")
    path = profiles.write("prod", SETTINGS)
    assert profiles.read("prod") == SETTINGS
    assert read_properties(path) == SETTINGS
    assert profiles.names == ["prod"]


def test_only_the_owner_can_read_a_profile(tmp_path: Path) -> None:
    """It holds secrets, also after a file that others could read is replaced."""
    profiles = Profiles(tmp_path / "ottla")
    path = profiles.write("prod", {"a": "1"})
    path.chmod(0o644)
    profiles.write("prod", SETTINGS)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_current_profile_is_remembered_until_it_is_deleted(tmp_path: Path) -> None:
    """A deleted profile must not make every later command fail."""
    profiles = Profiles(tmp_path / "ottla")
    seen = [profiles.current]
    profiles.write("prod", SETTINGS)
    profiles.use("prod")
    seen.append(profiles.current)
    profiles.delete("prod")
    seen.append(profiles.current)
    assert seen == [None, "prod", None]
    assert profiles.names == []


@pytest.mark.parametrize("name", ["", "../prod", ".hidden", "a/b", "a b"])
def test_profile_name_cannot_leave_the_directory(tmp_path: Path, name: str) -> None:
    """A name is part of a path."""
    profiles = Profiles(tmp_path / "ottla")
    with pytest.raises(ProfileError, match="named by letters"):
        profiles.write(name, SETTINGS)
    with pytest.raises(ProfileError, match="there is no profile"):
        profiles.read(name)


def test_unknown_profile_names_the_similar_one(tmp_path: Path) -> None:
    """A mistyped name is the usual reason."""
    profiles = Profiles(tmp_path / "ottla")
    profiles.write("production", SETTINGS)
    with pytest.raises(ProfileError, match="did you mean 'production'"):
        profiles.use("producton")


def test_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """The user has to know which of several files is meant."""
    (tmp_path / "bad").write_text("a=\\u12", "utf-8")
    with pytest.raises(ProfileError, match="bad: malformed"):
        read_properties(tmp_path / "bad")
    with pytest.raises(ProfileError, match="missing: no such file"):
        read_properties(tmp_path / "missing")


def test_directory_follows_xdg(tmp_path: Path) -> None:
    """Users who move their configuration expect profiles there."""
    assert directory({"XDG_CONFIG_HOME": str(tmp_path)}) == tmp_path / "ottla"
    assert directory({}).parts[-2:] == (".config", "ottla")
