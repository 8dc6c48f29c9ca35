"""Settings as operators write them: a server.properties file, or environment variables."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_BLANK = " \t\f"
_LINE_ENDS = re.compile(r"\r\n|\r|\n")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|u|.|$)", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
# Key, then the separator: blanks around at most one = or :.
_KEY = re.compile(r"((?:[^\\ \t\f=:]|\\.)*)[ \t\f]*[=:]?[ \t\f]*", re.DOTALL)


class ConfigError(Exception):
    """Settings with which a broker cannot start; one sentence per problem."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def parse_properties(text: str) -> dict[str, str]:
    """The settings in Java's properties format; of a name given twice the last value counts.

    Raises ConfigError for an escape that is none."""
    settings: dict[str, str] = {}
    for line in _logical_lines(text):
        match = _KEY.match(line)
        assert match is not None
        settings[_unescape(match[1])] = _unescape(line[match.end() :])
    return settings


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments and blank ones, continued ones joined."""
    pending: str | None = None
    for natural in _LINE_ENDS.split(text):
        line = natural.lstrip(_BLANK)
        if pending is None and (not line or line[0] in "#!"):
            continue
        line = (pending or "") + line
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            # The line end is escaped, and so is the next line's indentation.
            pending = line[:-1]
        else:
            pending = None
            yield line
    if pending is not None:
        yield pending


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_unescape_one, text) if "\\" in text else text


def _unescape_one(match: re.Match[str]) -> str:
    escaped = match[1]
    if escaped == "u":
        raise ConfigError(f"malformed \\uxxxx escape in {match.string!r}")
    if len(escaped) > 1:
        return chr(int(escaped[1:], 16))
    return _CONTROL.get(escaped, escaped)


_PREFIX = "KAFKA_"
# What the scripts around Kafka read and the broker never sees.
_NOT_SETTINGS = re.compile(
    r"KAFKA_(VERSION|HOME|OPTS|HEAP_OPTS|LOG4J_\w+|TOOLS_LOG4J_\w+|JMX_\w+|GC_LOG_OPTS|DEBUG"
    r"|JVM_PERFORMANCE_OPTS|CLASSPATH"
    # Kubernetes puts these into every container beside a service that is called kafka.
    r"|(\w+_)?SERVICE_(HOST|PORT\w*)|(\w+_)?PORT(_[0-9]+_\w+)?)"
)
_UNDERSCORES = {"_": ".", "__": "_", "___": "-"}


def settings_from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """KAFKA_A_B=v sets a.b, as in Apache's image: _ is a dot, __ an underscore, ___ a dash."""
    settings = {}
    for variable in sorted(environment):
        if not variable.startswith(_PREFIX) or _NOT_SETTINGS.fullmatch(variable):
            continue
        name = variable.removeprefix(_PREFIX).lower()
        name = re.sub("_{1,3}", lambda match: _UNDERSCORES[match[0]], name)
        settings[name] = environment[variable]
    return settings
