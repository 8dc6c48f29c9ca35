"""Changes to configurations, judged before anything is stored.

Every function takes what is set for one topic or broker and returns what will be set, or raises
KafkaError with a sentence for the client: INVALID_CONFIG for names and values, INVALID_REQUEST for
a request that makes no sense. Nothing is half applied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.configs.broker_configs_table import BROKER_CONFIGS
from ottla.coordinator.configs.definitions import ConfigType, Update, render, unknown
from ottla.coordinator.configs.group_configs import GROUP_CONFIGS, contradiction
from ottla.coordinator.configs.topic_configs import TOPIC_CONFIGS
from ottla.protocol.configs import ConfigOperation
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ottla.coordinator.configs.configs import ConfigSources
    from ottla.coordinator.configs.definitions import Definition

_PASSWORDS = tuple(name for name, one in BROKER_CONFIGS.items() if one.is_sensitive)


class ConfigAlteration(NamedTuple):
    """One line of an IncrementalAlterConfigs request; the operation as it was on the wire."""

    name: str
    operation: int
    value: str | None


def check_topic_configs(
    overrides: Mapping[str, str | None], null_code: ErrorCode = ErrorCode.INVALID_REQUEST
) -> dict[str, str]:
    """The settings of a topic as CreateTopics and AlterConfigs bring them: the whole set.

    ``null_code`` is the error of a null among them. Raises KafkaError."""
    values = _without_nulls(overrides, null_code)
    for name, text in values.items():
        _check(name, text, TOPIC_CONFIGS, "topic")
    _check_together(values)
    return values


def change_topic_configs(
    current: Mapping[str, str], changes: Sequence[ConfigAlteration]
) -> dict[str, str]:
    """A topic's settings after an incremental change. Raises KafkaError."""
    changed = _apply(current, changes, TOPIC_CONFIGS, "topic")
    # What the change does not touch may be broken or unknown; that is no reason to refuse it.
    for change in changes:
        if change.name in changed:
            _check(change.name, changed[change.name], TOPIC_CONFIGS, "topic")
    _check_together(changed)
    return changed


def check_broker_configs(
    values: Mapping[str, str | None], *, for_one_broker: bool
) -> dict[str, str]:
    """A broker's dynamic settings as AlterConfigs brings them. Raises KafkaError."""
    checked = _without_nulls(values)
    for name, text in checked.items():
        _check_dynamic(_base_of(name), for_one_broker=for_one_broker)
        _check_broker(name, text)
    return checked


def change_broker_configs(
    current: Mapping[str, str], changes: Sequence[ConfigAlteration], *, for_one_broker: bool
) -> dict[str, str]:
    """A broker's dynamic settings after an incremental change. Raises KafkaError."""
    changed = _apply(current, changes, BROKER_CONFIGS, None)
    for change in changes:
        _check_dynamic(change.name, for_one_broker=for_one_broker)
        if change.name in changed:
            _check_dynamic(_base_of(change.name), for_one_broker=for_one_broker)
            _check_broker(change.name, changed[change.name])
    return changed


def check_group_configs(values: Mapping[str, str | None], sources: ConfigSources) -> dict[str, str]:
    """A group's settings as AlterConfigs brings them. Raises KafkaError."""
    checked = check_known(values, GROUP_CONFIGS, "group")
    _check_times(checked, sources)
    return checked


def check_known(
    values: Mapping[str, str | None], known: Mapping[str, Definition], kind: str
) -> dict[str, str]:
    """Settings of a resource that takes the names of one table alone. Raises KafkaError."""
    checked = _without_nulls(values)
    for name, text in checked.items():
        _check(name, text, known, kind)
    return checked


def change_known(
    current: Mapping[str, str],
    changes: Sequence[ConfigAlteration],
    known: Mapping[str, Definition],
    kind: str,
) -> dict[str, str]:
    """Such settings after an incremental change. Raises KafkaError."""
    changed = _apply(current, changes, known, kind)
    for name in known.keys() & changed.keys():
        _check(name, changed[name], known, kind)
    return changed


def change_group_configs(
    current: Mapping[str, str], changes: Sequence[ConfigAlteration], sources: ConfigSources
) -> dict[str, str]:
    """A group's settings after an incremental change. Raises KafkaError."""
    changed = change_known(current, changes, GROUP_CONFIGS, "group")
    _check_times(changed, sources)
    return changed


def _check_times(values: Mapping[str, str], sources: ConfigSources) -> None:
    problem = contradiction(values, sources)
    if problem is not None:
        raise _refuse(problem)


def _refuse(sentence: str, code: ErrorCode = ErrorCode.INVALID_CONFIG) -> KafkaError:
    return KafkaError(code, sentence)


def _without_nulls(
    values: Mapping[str, str | None], code: ErrorCode = ErrorCode.INVALID_REQUEST
) -> dict[str, str]:
    found = {name: text for name, text in values.items() if text is not None}
    if len(found) < len(values):
        nulls = ", ".join(sorted(values.keys() - found.keys()))
        raise _refuse(f"null is no value for {nulls}", code)
    return found


def _check(name: str, text: str, known: Mapping[str, Definition], kind: str) -> None:
    definition = known.get(name)
    if definition is None:
        raise _refuse(unknown(name, kind, known))
    problem = definition.problem(text)
    if problem is not None:
        raise _refuse(problem)


def _check_broker(name: str, text: str) -> None:
    """A name that is unknown here may be a plug-in's or a later version's: it is kept as it is. The
    code for a bad value is Kafka's for settings of brokers."""
    if _is_password(name):
        # Kafka stores them encrypted, and refuses them without password.encoder.secret.
        raise _refuse(
            f"{name} is a secret, which the metadata store would keep in clear text: set it in the "
            "properties file of the broker",
            ErrorCode.INVALID_REQUEST,
        )
    definition = BROKER_CONFIGS.get(name)
    problem = None if definition is None else definition.problem(text)
    if problem is not None:
        raise _refuse(problem, ErrorCode.INVALID_REQUEST)


def _is_password(name: str) -> bool:
    """Whether it is one, of the broker or of one of its listeners (``listener.name.NAME.``)."""
    return any(
        name == one or (name.startswith("listener.name.") and name.endswith(f".{one}"))
        for one in _PASSWORDS
    )


def _base_of(name: str) -> str:
    """The setting that a name of one listener is about (``listener.name.NAME.``, with or without
    a mechanism): what cannot change for all listeners cannot change for one."""
    if not name.startswith("listener.name."):
        return name
    own = name.removeprefix("listener.name.").partition(".")[2]
    return own if own in BROKER_CONFIGS else own.partition(".")[2]


def _check_together(values: Mapping[str, str]) -> None:
    """Settings that are legal one by one."""
    if values.get("remote.storage.enable", "").strip().lower() == "true":
        raise _refuse("remote.storage.enable cannot be true: there is no remote tier here")
    shortest, longest = "min.compaction.lag.ms", "max.compaction.lag.ms"
    if not all(_is_legal(values, name) for name in (shortest, longest)):
        return
    if int(values[shortest]) > int(values[longest]):
        raise _refuse(f"{shortest} ({values[shortest]}) exceeds {longest} ({values[longest]})")


def _is_legal(values: Mapping[str, str], name: str) -> bool:
    """Whether a value is there and can be read; an old one may be broken."""
    return name in values and TOPIC_CONFIGS[name].problem(values[name]) is None


def _check_dynamic(name: str, *, for_one_broker: bool) -> None:
    definition = BROKER_CONFIGS.get(name)
    if definition is None:
        return
    if definition.update is Update.READ_ONLY:
        raise _refuse(f"{name} cannot be changed while the broker runs", ErrorCode.INVALID_REQUEST)
    if definition.update is Update.PER_BROKER and not for_one_broker:
        raise _refuse(
            f"{name} can be set for single brokers only, not for all", ErrorCode.INVALID_REQUEST
        )


def _apply(
    current: Mapping[str, str],
    changes: Sequence[ConfigAlteration],
    known: Mapping[str, Definition],
    kind: str | None,
) -> dict[str, str]:
    """``kind`` is named in what is said of an unknown setting; None if any may be set."""
    changed = dict(current)
    seen: set[str] = set()
    for change in changes:
        if change.name in seen:
            raise _refuse(f"{change.name} occurs twice", ErrorCode.INVALID_REQUEST)
        seen.add(change.name)
        if change.operation == ConfigOperation.DELETE:
            changed.pop(change.name, None)
            continue
        if change.name not in known and kind is not None:
            raise _refuse(unknown(change.name, kind, known))
        if change.value is None:
            raise _refuse(f"null is no value for {change.name}", ErrorCode.INVALID_REQUEST)
        if change.operation == ConfigOperation.SET:
            changed[change.name] = change.value
        else:
            text = _edit_list(known.get(change.name), changed.get(change.name), change)
            changed[change.name] = text
    return changed


def _edit_list(definition: Definition | None, current: str | None, change: ConfigAlteration) -> str:
    """Append to or subtract from a list, which starts as its default if it is not set."""
    if change.operation not in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
        raise _refuse(f"there is no operation {change.operation}", ErrorCode.INVALID_REQUEST)
    if definition is None or definition.config_type is not ConfigType.LIST:
        raise _refuse(f"{change.name} is no list: it can only be set and deleted")
    items = _items(current if current is not None else definition.default or "")
    given = _items(change.value or "")
    if change.operation == ConfigOperation.APPEND:
        return render((*items, *(item for item in given if item not in items)))
    return render(tuple(item for item in items if item not in given))


def _items(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",") if item.strip())
