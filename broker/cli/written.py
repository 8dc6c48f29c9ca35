"""The settings that a command line and its surroundings give by name."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.coordinator.configs.broker_configs import (
    ConfigError,
    parse_properties,
    settings_from_environment,
)

if TYPE_CHECKING:
    import argparse


HOST_VARIABLE = "OTTLA_HOST"
"""The host of listeners that name none; the image sets it, so that published ports are reached."""

_WITHOUT_HOST = re.compile(r"://:(?=[0-9])")
_AT_HOST = re.compile(r"://(\[[^]]*\]|[^:,\s]*):(?=[0-9])")


def written_settings(arguments: argparse.Namespace) -> dict[str, str]:
    """What is set by name: in the file, then in the environment, then with ``-o``.

    Raises ConfigError with one sentence for a person."""
    settings: dict[str, str] = {}
    if arguments.config is not None:
        try:
            text = Path(arguments.config).read_text("utf-8")
        except OSError as error:
            raise ConfigError(f"cannot read {arguments.config}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ConfigError(f"cannot read {arguments.config}: it is not UTF-8 text") from None
        settings.update(parse_properties(text))
    surroundings = settings_from_environment(os.environ)
    settings.update(surroundings)
    if "listeners" not in settings and surroundings.get("advertised.listeners", "").strip():
        # As in the images of Kafka: the ports that clients are told are those to listen on.
        settings["listeners"] = _AT_HOST.sub("://:", surroundings["advertised.listeners"])
    host = os.environ.get(HOST_VARIABLE, "").strip()
    if host and "listeners" in settings:
        settings["listeners"] = _WITHOUT_HOST.sub(f"://{host}:", settings["listeners"])
    for item in arguments.settings:
        key, separator, value = item.partition("=")
        if not separator:
            raise ConfigError(f"-o wants KEY=VALUE, not {item!r}")
        settings[key.strip()] = value
    return settings
