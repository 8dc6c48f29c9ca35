"""Requests about configurations, and their results."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING

from ottla.client.records.arguments import check_text, texts
from ottla.protocol.apis import ApiKey
from ottla.protocol.configs import ConfigOperation, ConfigSource
from ottla.protocol.errors import ErrorCode, error_code
from ottla.protocol.messages import alter_configs
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.api import declare
from ottla.wire.errors import RequestRefused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.wire.connection import Connection

# From 1 on a response has the source of each value.
DESCRIBE_CONFIGS = declare(
    ApiKey.DESCRIBE_CONFIGS, DescribeConfigsRequest, DescribeConfigsResponse, 1
)
# From 3 on a response may have what each setting means (KIP-569).
DESCRIBE_DOCUMENTED = declare(
    ApiKey.DESCRIBE_CONFIGS, DescribeConfigsRequest, DescribeConfigsResponse, 3
)
INCREMENTAL_ALTER_CONFIGS = declare(
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
LIST_CONFIG_RESOURCES = declare(
    ApiKey.LIST_CONFIG_RESOURCES, ListConfigResourcesRequest, ListConfigResourcesResponse
)


# The older request, which can only replace whole configurations.
ALTER_CONFIGS = declare(
    ApiKey.ALTER_CONFIGS, alter_configs.AlterConfigsRequest, alter_configs.AlterConfigsResponse
)


class ResourceType(IntEnum):
    """What has a configuration, with Kafka's numbers. A broker's name is its id; empty means
    all."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigEntry(NamedTuple):
    """One setting; the value of a sensitive setting is None.

    ``documentation`` says what it means, if that was asked for and the broker tells it."""

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    documentation: str | None = None


class ConfigChange(NamedTuple):
    """One change of a setting.

    Attributes:
        name: The setting's name.
        operation: What to do.
        value: The value; None (default) for DELETE.
    """

    name: str
    operation: ConfigOperation
    value: str | None = None


SOURCES = {int(source): source for source in ConfigSource}


def node_of(name: str) -> int:
    """Parse a broker's id. Raises ValueError."""
    if not (name.isascii() and name.isdigit()):
        raise ValueError(f"a broker is called by its number, as '1', not {name!r}")
    return int(name)


def _check_resource(resource: object, name: object) -> None:
    if not isinstance(resource, ResourceType):
        raise TypeError(f"a resource is a ResourceType and a name, not {resource!r}")
    check_text("a resource", name)


def check_settings(values: object) -> None:
    """Raise TypeError unless these are texts by name."""
    if not isinstance(values, Mapping):
        raise TypeError(f"settings are a dict of texts, not {values!r}")
    for name, value in values.items():
        check_text("a setting", name)
        if not isinstance(value, str):
            raise TypeError(f"the value of setting {name!r} is a text, not {value!r}")


def describe_request(
    resource: ResourceType,
    name: str,
    keys: Sequence[str] | None,
    *,
    with_documentation: bool = False,
) -> DescribeConfigsRequest:
    """Build the request for some or all settings of one resource."""
    _check_resource(resource, name)
    wanted = None if keys is None else texts("settings", keys)
    return DescribeConfigsRequest(
        [DescribeConfigsResource(resource.value, name, wanted)],
        include_documentation=with_documentation,
    )


def check_described(
    response: DescribeConfigsResponse, connection: Connection | None = None
) -> None:
    """Raise RequestRefused if it was refused."""
    for result in response.results:
        check(result.error_code, result.error_message, topic_of(result), connection)


def topic_of(
    result: DescribeConfigsResult
    | AlterConfigsResourceResponse
    | alter_configs.AlterConfigsResourceResponse,
) -> str | None:
    """Return the topic of a result, None for a broker or a group."""
    return result.resource_name if result.resource_type == ResourceType.TOPIC else None


def check(
    number: int, message: str | None, topic: str | None, connection: Connection | None
) -> None:
    """Raise RequestRefused unless the code is NONE."""
    code = error_code(number)
    if code is not ErrorCode.NONE:
        broker = None if connection is None else str(connection.address)
        raise RequestRefused(code, message, broker=broker, topic=topic)


def entries_of(response: DescribeConfigsResponse) -> list[ConfigEntry]:
    """Return the settings, by name."""
    return sorted(
        ConfigEntry(
            config.name,
            config.value,
            SOURCES.get(config.config_source, ConfigSource.UNKNOWN),
            config.read_only,
            config.is_sensitive,
            config.documentation,
        )
        for result in response.results
        for config in result.configs
    )


def alter_request(
    resource: ResourceType, name: str, changes: Sequence[ConfigChange], validate_only: bool
) -> IncrementalAlterConfigsRequest:
    """Build the request to change some settings of one resource."""
    _check_resource(resource, name)
    for change in changes:
        if not isinstance(change, ConfigChange):
            raise TypeError(f"a change is a ConfigChange, not {change!r}")
    configs = [
        AlterableConfig(change.name, change.operation.value, change.value) for change in changes
    ]
    altered = AlterConfigsResource(resource.value, name, configs)
    return IncrementalAlterConfigsRequest([altered], validate_only)


def replace_request(
    resource: ResourceType, name: str, values: Mapping[str, str], validate_only: bool
) -> alter_configs.AlterConfigsRequest:
    """Build the request to set exactly these settings of one resource."""
    _check_resource(resource, name)
    check_settings(values)
    configs = [alter_configs.AlterableConfig(key, value) for key, value in values.items()]
    replaced = alter_configs.AlterConfigsResource(resource.value, name, configs)
    return alter_configs.AlterConfigsRequest([replaced], validate_only)


def check_altered(
    response: IncrementalAlterConfigsResponse | alter_configs.AlterConfigsResponse,
    connection: Connection | None = None,
) -> None:
    """Raise RequestRefused if it was refused."""
    for result in response.responses:
        check(result.error_code, result.error_message, topic_of(result), connection)
