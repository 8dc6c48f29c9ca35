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
# Bitnami's image marks settings so; its other variables are for its scripts.
_MARK = "CFG_"
# What the scripts around Kafka read and the broker never sees.
_NOT_SETTINGS = re.compile(
    r"KAFKA_(VERSION|HOME|OPTS|HEAP_OPTS|LOG4J_\w+|TOOLS_LOG4J_\w+|JMX_\w+|GC_LOG_OPTS|DEBUG"
    r"|JVM_PERFORMANCE_OPTS|CLASSPATH|EXTRA_ARGS|EXTRA_FLAGS|JAVA_OPTS|UID|GID"
    # The identity of a KRaft cluster and the directories of Bitnami's image.
    r"|CLUSTER_ID|KRAFT_CLUSTER_ID|ENABLE_KRAFT|SKIP_KRAFT_STORAGE_INIT"
    r"|(BASE|VOLUME|DATA|CONF|MOUNTED_CONF|DEFAULT_CONF|CERTS|INITSCRIPTS|BIN)_DIR|CONF_FILE"
    r"|DAEMON_(USER|GROUP)|CLIENT_LISTENER_NAME"
    # Kubernetes puts these into every container beside a service that is called kafka.
    r"|(\w+_)?SERVICE_(HOST|PORT\w*)|(\w+_)?PORT(_[0-9]+_\w+)?)"
)
# Scripts of these images turn them into logins and keys: without the scripts they would be lost.
_LOGINS = re.compile(
    r"KAFKA_((CLIENT|INTER_BROKER|CONTROLLER)_(USERS?|PASSWORDS?|CLIENT_ID|CLIENT_SECRET)"
    r"|CERTIFICATE_PASSWORD|TLS_\w+|INITIAL_CONTROLLERS"
    r"|ZOOKEEPER_(PROTOCOL|USER|PASSWORD|TLS_\w+))"
)
_FILES = re.compile(r"KAFKA_SSL_(KEYSTORE|TRUSTSTORE|KEY)_(FILENAME|CREDENTIALS)")
_UNDERSCORES = {"_": ".", "__": "_", "___": "-"}


def settings_from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings of the images of Kafka: KAFKA_A_B=v and KAFKA_CFG_A_B=v set a.b.

    _ is a dot, __ an underscore, ___ a dash. Where both forms are set, KAFKA_CFG_ counts.
    Raises ConfigError for a variable that asks another image's scripts for logins or keys."""
    settings = {}
    written = [name for name in environment if name.startswith(_PREFIX)]
    for variable in sorted(written, key=lambda name: (name.startswith(_PREFIX + _MARK), name)):
        if _NOT_SETTINGS.fullmatch(variable):
            continue
        if advice := _advice_on(variable):
            if environment[variable]:
                raise ConfigError(f"{variable} is read by scripts of {advice}")
            continue
        name = variable.removeprefix(_PREFIX).removeprefix(_MARK).lower()
        name = re.sub("_{1,3}", lambda match: _UNDERSCORES[match[0]], name)
        settings[name] = environment[variable]
    return settings


def _advice_on(variable: str) -> str | None:
    """The rest of a sentence about a variable that is no setting and must not be lost."""
    if _LOGINS.fullmatch(variable):
        return (
            "Bitnami's image, which are not here: set the settings of logins and keys themselves "
            "(KAFKA_CFG_SASL_... and KAFKA_CFG_SSL_...), and make users with --add-scram"
        )
    if _FILES.fullmatch(variable):
        return (
            "Confluent's image, which are not here: set KAFKA_SSL_KEYSTORE_LOCATION, "
            "KAFKA_SSL_TRUSTSTORE_LOCATION and their passwords"
        )
    return None
