"""The broker's ``log.cleaner.*`` settings, read again before every run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.configs.broker_configs_table import BROKER_CONFIGS
from ottla.coordinator.configs.definitions import BadValue
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.coordinator.configs.configs import ConfigSources

UNLIMITED = 2.0**62


class CleaningSettings(NamedTuple):
    """Under Kafka's names and with its defaults; sizes in bytes."""

    backoff_ms: int = 15_000
    dedupe_buffer_size: int = 128 * 1024 * 1024
    io_buffer_load_factor: float = 0.9
    io_max_bytes_per_second: float | None = None

    @property
    def budget_bytes(self) -> int:
        """Memory for the keys of one run."""
        return int(self.dedupe_buffer_size * self.io_buffer_load_factor)


def cleaning_settings(sources: ConfigSources) -> CleaningSettings:
    """Return the settings in force. A value that cannot be parsed counts as not set."""
    rate = _number("log.cleaner.io.max.bytes.per.second", sources)
    return CleaningSettings(
        backoff_ms=int(_number("log.cleaner.backoff.ms", sources)),
        dedupe_buffer_size=int(_number("log.cleaner.dedupe.buffer.size", sources)),
        io_buffer_load_factor=_number("log.cleaner.io.buffer.load.factor", sources),
        io_max_bytes_per_second=rate if 0 < rate < UNLIMITED else None,
    )


def _number(name: str, sources: ConfigSources) -> float:
    definition = BROKER_CONFIGS[name]
    for text in (sources.text(name), definition.default):
        try:
            value = definition.parse(text or "")
        except BadValue:
            continue
        assert isinstance(value, int | float)
        return value
    raise AssertionError(f"{name} has no legal default")
