"""Settings as the person at the command line knows them: an option, or a name in a file.

What is said about a setting, deep in the broker, names it as Kafka does, and advice names the
option. A user who wrote ``--zookeeper`` may not know ``zookeeper.connect``, and vice versa.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

# The first of a setting's options stands for it.
OPTIONS = {
    "listeners": ("--host", "--port"),
    "log.dirs": ("--data-dir",),
    "zookeeper.connect": ("--zookeeper",),
    "broker.id": ("--id",),
    "ottla.metrics.listener": ("--metrics",),
    "ottla.listener.07": ("--listener-07",),
}


def reworded(sentence: str, written: Collection[str]) -> str:
    """The sentence with the names that its reader has used.

    ``written``: settings given by name, and not by an option as well. All others are known by
    their options, even where nothing was given."""
    for setting, options in OPTIONS.items():
        if setting in written:
            for option in options:
                sentence = re.sub(rf"(?<![\w-]){option}(?![\w-])", setting, sentence)
        else:
            name = re.escape(setting)
            sentence = re.sub(rf"(?<![\w.-]){name}(?![\w-]|\.\w)", options[0], sentence)
    if "listeners" not in written:
        sentence = sentence.replace("set advertised.listeners=", "add -o advertised.listeners=")
    return sentence
