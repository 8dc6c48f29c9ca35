"""Settings as operators write them: a server.properties file, or environment variables."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ottla.protocol import properties

if TYPE_CHECKING:
    from collections.abc import Mapping


class ConfigError(Exception):
    """Settings with which a broker cannot start; one sentence per problem."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def parse_properties(text: str) -> dict[str, str]:
    """The settings in Java's properties format; of a name given twice the last value counts.

    Raises ConfigError for an escape that is none."""
    try:
        return properties.parse_properties(text)
    except ValueError as error:
        raise ConfigError(str(error)) from error


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
