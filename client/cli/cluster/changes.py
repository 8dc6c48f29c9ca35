"""Reads changes of settings from command lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.cluster.config_requests import ConfigChange
from ottla.protocol.configs import ConfigOperation

if TYPE_CHECKING:
    import argparse


def changes_of(arguments: argparse.Namespace) -> list[ConfigChange]:
    """The changes of ``-c`` and ``-d``, and of ``--append`` and ``--subtract`` if present."""
    pairs = (
        ("config", ConfigOperation.SET),
        ("append", ConfigOperation.APPEND),
        ("subtract", ConfigOperation.SUBTRACT),
    )
    changes = [
        ConfigChange(key, operation, value)
        for name, operation in pairs
        for key, value in getattr(arguments, name, ())
    ]
    return changes + [ConfigChange(key, ConfigOperation.DELETE) for key in arguments.delete_config]
