"""How a command reaches a cluster: addresses and settings from options, files and environment.

Of several sources of one setting the strongest counts: ``-X``, then ``--command-config`` or
``--profile``, then ``OTTLA_*`` variables, then the current profile.
"""

from __future__ import annotations

import os
import re
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from ottla.client.cli.arguments import BOOTSTRAP_VARIABLE, DEFAULT_BOOTSTRAP
from ottla.client.settings.profiles import ProfileError, Profiles, directory, read_properties

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from ottla.client.settings.config import ClientConfig

    Config = TypeVar("Config", bound=ClientConfig)

SERVERS = "bootstrap.servers"
PROFILE_VARIABLE = "OTTLA_PROFILE"
# OTTLA_SASL_USERNAME is sasl.username. Other settings are not read from the environment, where
# one that is left over from another task would change what a command does.
_VARIABLE = re.compile(r"OTTLA_(?=(?:SECURITY|SASL|SSL)_)(\w+)")
# One process runs one command.
_GIVEN: ContextVar[Mapping[str, str]] = ContextVar("given settings", default=MappingProxyType({}))


def resolve(arguments: argparse.Namespace, environment: Mapping[str, str] | None = None) -> None:
    """Set ``arguments.bootstrap``, and the settings that ``with_given`` adds to each client.

    Raises ProfileError for a file or profile that cannot be read."""
    environment = os.environ if environment is None else environment
    settings = given_settings(arguments, environment)
    bootstrap = arguments.bootstrap or environment.get(BOOTSTRAP_VARIABLE)
    arguments.bootstrap = bootstrap or settings.get(SERVERS) or DEFAULT_BOOTSTRAP
    _GIVEN.set({name: value for name, value in settings.items() if name != SERVERS})


def given_settings(arguments: argparse.Namespace, environment: Mapping[str, str]) -> dict[str, str]:
    """All settings that were given, by Kafka's names. Raises ProfileError."""
    profiles = Profiles(directory(environment))
    chosen = getattr(arguments, "profile", None)
    file = getattr(arguments, "command_config", None)
    settings: dict[str, str] = {}
    usual = environment.get(PROFILE_VARIABLE) or profiles.current
    if chosen is None and file is None and usual is not None:
        settings |= profiles.read(usual)
    for variable, value in environment.items():
        match = _VARIABLE.fullmatch(variable)
        if match is not None:
            settings[match[1].lower().replace("_", ".")] = value
    if chosen is not None:
        settings |= profiles.read(chosen)
    if file is not None:
        settings |= read_properties(Path(file))
    for properties in ("properties", "verb_properties"):
        settings |= dict(getattr(arguments, properties, ()))
    return settings


def given() -> Mapping[str, str]:
    """The settings of the running command, without addresses."""
    return _GIVEN.get()


def with_given(config: Config) -> Config:
    """The configuration with the settings that were given to the command. Raises ProfileError."""
    settings = given()
    if not settings:
        return config
    try:
        return config.with_properties(settings, ignore_others=True)
    except (ValueError, TypeError) as error:
        is_name = str(error).startswith("no setting is called")
        where = "; docs/settings.md lists them" if is_name else ""
        raise ProfileError(f"{error}{where}") from error
