"""The settings that a command line and its surroundings give by name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.coordinator.configs.broker_configs import (
    ConfigError,
    parse_properties,
    settings_from_environment,
)

if TYPE_CHECKING:
    import argparse


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
    settings.update(settings_from_environment(os.environ))
    for item in arguments.settings:
        key, separator, value = item.partition("=")
        if not separator:
            raise ConfigError(f"-o wants KEY=VALUE, not {item!r}")
        settings[key.strip()] = value
    return settings
