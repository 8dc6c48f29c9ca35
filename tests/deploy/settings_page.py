"""docs/settings.md, written from the tables of settings and the docstrings of clients.

``python -m tests.deploy.settings_page`` writes the page.
"""

from __future__ import annotations

import re
from dataclasses import MISSING, Field, fields
from enum import Enum
from typing import TYPE_CHECKING, Any

from ottla.client.settings.config import ClientConfig, ConsumerConfig, ProducerConfig
from ottla.client.settings.kafka_names import ALIASES
from ottla.coordinator.configs import broker_configs_table, group_configs, topic_configs
from ottla.coordinator.configs.definitions import AT_START, read_table
from ottla.wire.connection_config import ConnectionConfig
from tests.deploy.settings_since import BROKERS, CLIENTS, TOPICS, since
from tests.tidy.tree import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = ROOT / "docs" / "settings.md"
COMMAND = "python -m tests.deploy.settings_page"
UNITS = {
    "ms": "ms",
    "bytes": "bytes",
    "seconds": "s",
    "minutes": "minutes",
    "hours": "hours",
    "percentage": "%",
}
# Keywords that stand for several of Kafka's names.
OF_SEVERAL = {
    "reconnect_backoff": "`reconnect.backoff.ms`, `reconnect.backoff.max.ms`",
    "retry_backoff": "`retry.backoff.ms`, `retry.backoff.max.ms`",
    "security": "`security.protocol`, `ssl.*`, `sasl.*`",
    "socket": "`send.buffer.bytes`, `receive.buffer.bytes`",
}
CLASSES = {
    "Every client": (ConnectionConfig, ClientConfig),
    "Producers": (ProducerConfig,),
    "Consumers": (ConsumerConfig,),
}
OPENING = """# Settings

Every setting of brokers, topics, groups and clients, with its default and its effect. The tables
are written from those that the code uses.

- A broker takes its settings from `--config FILE`, then the environment (`KAFKA_A_B` sets `a.b`),
  then `-o KEY=VALUE`, then the other options of [`ottla start`](commands.md#ottla-start).
- "Changed" says how a setting is changed while the broker runs: not at all (read-only), for one
  broker, or for the whole cluster. `ottla configs alter broker 1 -c KEY=VALUE` changes it.
- A topic takes what it does not set from the broker setting in the last column.
- "Since" is the version in which Kafka introduced the setting; "Ottla" marks those that Kafka does
  not have. Where it is empty, the version was not looked up.
- A client takes Kafka's names from a properties file (`--command-config`, `from_properties`), and
  the names of the first column as keywords.

"""


def page() -> str:
    """The whole page."""
    parts = [OPENING, *_brokers(), *_topics(), *_groups(), *_clients()]
    return "".join(parts).rstrip() + "\n"


def _brokers() -> Iterator[str]:
    rows, without = [], []
    for columns, words in read_table(broker_configs_table._TABLE):
        name, kind, default, legal, update, effect = columns
        if effect == "no":
            without.append(f"`{name}`")
            continue
        version = since(BROKERS, name)
        typed = (_typed(name, kind), _default(default), _legal(legal), _changed(update, effect))
        cells = (*typed, version, words)
        rows.append(_row(f"`{name}`", *cells))
    yield _table(
        "Brokers", "setting | type | default | legal values | changed | since | effect", rows
    )
    yield (
        "### Settings of Kafka without an effect\n\nA broker accepts these and warns once of each "
        "that is set. The same holds for settings of plug-ins and of missing features "
        f"([moving](moving.md#settings-files-and-environments)).\n\n{', '.join(without)}\n\n"
    )


def _topics() -> Iterator[str]:
    rows = []
    for columns, words in read_table(topic_configs._TABLE):
        name, kind, default, legal, effect, inherits = columns
        words = words if effect == "yes" else f"No effect. {words}"
        source = "" if inherits == "-" else ", ".join(f"`{one}`" for one in inherits.split(", "))
        version = since(TOPICS, name)
        cells = (_typed(name, kind), _default(default), _legal(legal), version, words, source)
        rows.append(_row(f"`{name}`", *cells))
    yield _table("Topics", "setting | type | default | legal values | since | effect | from", rows)


def _groups() -> Iterator[str]:
    rows = [
        _row(f"`{name}`", _typed(name, kind), _default(default), _legal(legal), words)
        for (name, kind, default, legal, *_), words in read_table(group_configs._TABLE)
    ]
    yield _table("Groups", "setting | type | default | legal values | effect", rows)


def _clients() -> Iterator[str]:
    names: dict[str, str] = {}
    for written, field_name in ALIASES.items():
        names.setdefault(field_name, written)
    yield "## Clients\n\n"
    for title, classes in CLASSES.items():
        rows = []
        for one in classes:
            words = meanings(one)
            # Fields of the class itself; those that it inherits are described with their own.
            own = [field for field in fields(one) if field.name in words]
            for field in own:
                kafka = names.get(field.name)
                version = since(CLIENTS, kafka) if field.name not in OF_SEVERAL else ""
                named = f"`{kafka}`" if kafka else OF_SEVERAL.get(field.name, "")
                cells = (named, _value(field), version, words[field.name])
                rows.append(_row(f"`{field.name}`", *cells))
        yield _table(title, "keyword | Kafka's name | default | since | effect", rows, level=3)


def meanings(one: type) -> dict[str, str]:
    """What the class says of its arguments, in one line each."""
    text = (one.__doc__ or "").partition("    Args:\n")[2]
    found = re.findall(r"^ {8}(\w+): (.*(?:\n {12}.*)*)", text, re.MULTILINE)
    return {name: re.sub(r"\s+", " ", words).replace("``", "`") for name, words in found}


def _value(field: Field[Any]) -> str:
    value = field.default if field.default_factory is MISSING else field.default_factory()
    if isinstance(value, Enum):
        return f"`{value.name.lower()}`"
    if isinstance(value, tuple) and value and not hasattr(value, "_fields"):
        return f"`{','.join(value)}`"
    if isinstance(value, int | float | str) and value != "":
        return f"`{value}`"
    low, high = getattr(value, "initial_ms", None), getattr(value, "limit_ms", None)
    return f"{low} to {high} ms" if low is not None else ""


def _typed(name: str, kind: str) -> str:
    unit = next((UNITS[word] for word in reversed(name.split(".")) if word in UNITS), "")
    is_number = kind in ("int", "long", "short", "double")
    return f"{kind}, {unit}" if unit and is_number else kind


def _default(text: str) -> str:
    return "" if text in ("null", '""') else "unlimited" if text == "MAX" else f"`{text}`"


def _legal(text: str) -> str:
    kept = {"-": "", "principals": "", "broker-principals": "", "throttled": "", "address": ""}
    return kept.get(text, text.replace("{, ", "{").strip("{}"))


def _changed(update: str, effect: str) -> str:
    if effect == AT_START:
        return ""
    return {"read-only": "", "per-broker": "one broker", "cluster-wide": "cluster"}[update]


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _table(title: str, head: str, rows: list[str], level: int = 2) -> str:
    line = "|" + "---|" * (head.count("|") + 1)
    return f"{'#' * level} {title}\n\n| {head} |\n{line}\n{''.join(rows)}\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
