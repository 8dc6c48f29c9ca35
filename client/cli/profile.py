"""``ottla profile``: creates, lists, shows, selects and deletes profiles."""

from __future__ import annotations

import getpass
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.client.cli.connection import SERVERS
from ottla.client.cli.output import json_document, table, write
from ottla.client.cli.run import FAILED, USAGE_ERROR
from ottla.client.settings.config import ConsumerConfig, ProducerConfig, parse_addresses
from ottla.client.settings.profiles import (
    ProfileError,
    Profiles,
    directory,
    is_secret,
    read_properties,
)

if TYPE_CHECKING:
    import argparse

PASSWORD = "sasl.password"
HIDDEN = "[hidden]"


def main(arguments: argparse.Namespace) -> int:
    """Run the command."""
    try:
        write(perform(arguments, Profiles(directory(os.environ))))
    except ProfileError as error:
        sys.stderr.write(f"ottla: {error}\n")
        return USAGE_ERROR
    except OSError as error:
        sys.stderr.write(f"ottla: {error.filename}: {(error.strerror or str(error)).lower()}\n")
        return FAILED
    return 0


def perform(arguments: argparse.Namespace, profiles: Profiles) -> str:
    """Run the verb and return what to write. Raises ProfileError and OSError."""
    name: str = getattr(arguments, "name", None) or ""
    as_json = arguments.format == "json"
    match arguments.verb:
        case "create":
            path = profiles.write(name, _checked(_settings(arguments)))
            return f"{path}\n"
        case "list":
            return _listed(profiles, as_json=as_json)
        case "show":
            shown = {
                key: HIDDEN if is_secret(key) else value for key, value in _read(profiles, name)
            }
            return (
                json_document(shown) if as_json else table(("SETTING", "VALUE"), [*shown.items()])
            )
        case "use":
            if bool(name) == arguments.none:
                raise ProfileError("name the profile to use, or give --none")
            profiles.use(name or None)
            return ""
    assert arguments.verb == "delete"
    profiles.delete(name)
    return ""


def _read(profiles: Profiles, name: str) -> list[tuple[str, str]]:
    return sorted(profiles.read(name).items())


def _listed(profiles: Profiles, *, as_json: bool) -> str:
    names, current = profiles.names, profiles.current
    if as_json:
        return json_document([{"name": name, "current": name == current} for name in names])
    return "".join(f"{'*' if name == current else ' '} {name}\n" for name in names)


def _settings(arguments: argparse.Namespace) -> dict[str, str]:
    settings: dict[str, str] = {}
    if arguments.command_config is not None:
        settings |= read_properties(Path(arguments.command_config))
    settings |= dict(arguments.properties)
    if arguments.address is not None:
        settings[SERVERS] = arguments.address
    if arguments.password:
        is_terminal = sys.stdin.isatty()
        settings[PASSWORD] = getpass.getpass() if is_terminal else sys.stdin.readline().rstrip("\n")
    return settings


def _checked(settings: dict[str, str]) -> dict[str, str]:
    """The settings, if a producer and a consumer would take them. Raises ProfileError."""
    if not settings:
        raise ProfileError("a profile without settings: give -b, -X or --command-config")
    try:
        if SERVERS in settings:
            parse_addresses(settings[SERVERS])
        for config in (ProducerConfig(), ConsumerConfig()):
            config.with_properties(settings, ignore_others=True)
    except (ValueError, TypeError) as error:
        raise ProfileError(str(error)) from error
    return settings
