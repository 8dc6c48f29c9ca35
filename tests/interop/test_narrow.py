"""The relays with Redpanda's versions: they must refuse what it refuses, and nothing that other
clients, which work with it, ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import RequestHeader, encode_request_header
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.metadata import MetadataRequest
from tests.interop.support.clients import INSTALLED, ForeignClient
from tests.interop.support.foreign import Program, packed, unpacked
from tests.interop.support.samples import digest, samples_with_content
from tests.support.memory_broker import memory_broker
from tests.support.raw_client import RawClient
from tests.support.relays.narrow import Narrowed
from tests.support.relays.profiles import PROFILES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROFILE = PROFILES["redpanda-24.3.2"]


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    with memory_broker() as address:
        yield address


@pytest.fixture
def relays() -> Iterator[Narrowed]:
    with Narrowed(PROFILE) as made:
        yield made


def reach(address: str) -> RawClient:
    host, _, port = address.rpartition(":")
    return RawClient(host, int(port))


async def test_only_the_profile_is_told_of(broker: str, relays: Narrowed) -> None:
    """ApiVersions has no API and no version outside of the profile, and no features."""
    async with reach(relays.addresses_of(broker)) as raw:
        answer = await raw.call(3, ApiVersionsRequest("test", "1"))

    told = {one.api_key: one for one in answer.api_keys}
    assert ApiKey.CONSUMER_GROUP_HEARTBEAT not in told
    assert told.keys() == PROFILE.keys()
    assert all(one.max_version <= PROFILE[key].last for key, one in told.items())
    assert (told[ApiKey.METADATA].max_version, told[ApiKey.FETCH].max_version) == (8, 11)
    assert answer.supported_features == answer.finalized_features == []
    assert answer.finalized_features_epoch == -1
    assert relays.taken_refusals() == []


async def test_a_first_question_that_is_too_new_is_answered_in_version_0(
    broker: str, relays: Narrowed
) -> None:
    """With the ranges in it; the connection stays."""
    async with reach(relays.addresses_of(broker)) as raw:
        raw.send(4, ApiVersionsRequest("test", "1"))
        answer = await raw.answer(0, ApiVersionsRequest())
        again = await raw.call(3, ApiVersionsRequest("test", "1"))

    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert answer.api_keys == again.api_keys
    assert relays.taken_refusals() == []


async def test_what_lies_outside_costs_the_connection_and_is_remembered(
    broker: str, relays: Narrowed
) -> None:
    """A version that is too new, and an API that there is not."""
    address = relays.addresses_of(broker)
    for key, version in ((ApiKey.FETCH, 12), (ApiKey.DESCRIBE_CLUSTER, 0), (9_999, 0)):
        frame = bytearray()
        encode_request_header(frame, RequestHeader(key, version, 1, "me"))
        async with reach(address) as raw:
            raw.send_frame(bytes(frame))
            with pytest.raises(EOFError):
                await raw.frame()

    assert relays.taken_refusals() == ["me: FETCH 12", "me: DESCRIBE_CLUSTER 0", "me: 9999 0"]
    assert relays.taken_refusals() == []


async def test_brokers_in_answers_are_their_relays(broker: str, relays: Narrowed) -> None:
    """A client that was led around a relay would show nothing."""
    address = relays.addresses_of(broker)
    async with reach(address) as raw:
        for version in (0, 8):
            (known,) = (await raw.call(version, MetadataRequest([]))).brokers
            assert f"{known.host}:{known.port}" == address
        for version in (0, 3):
            found = await raw.call(version, FindCoordinatorRequest("group"))
            assert found.error_code != ErrorCode.NONE or f"{found.host}:{found.port}" == address


@pytest.mark.parametrize("client", [pytest.param(one, id=one.name) for one in INSTALLED])
def test_clients_of_others_work_with_the_profile(
    client: ForeignClient, broker: str, relays: Narrowed, tmp_path: Path
) -> None:
    """They work with Redpanda: where one fails, the relay is wrong or too strict."""
    topic = f"narrow-{client.name}"
    sent = samples_with_content()
    if client.capabilities.without_null_headers:
        sent = [one for one in sent if all(value is not None for _, value in one.headers)]
    command = [*client.command(), relays.addresses_of(broker)]
    with Program(command, tmp_path / "stderr", client.capabilities) as program:
        program.step("create", topic=topic, partitions=1, config={})
        order = {"topic": topic, "codec": "gzip", "acks": "all", "idempotent": True}
        program.step("produce", **order, records=packed(sent))
        read = program.step("consume", topic=topic, offset=0, count=len(sent))["records"]

    assert digest(unpacked(read)) == digest(sent)
    assert relays.taken_refusals() == []
