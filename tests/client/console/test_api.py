"""What the JSON side answers is what OpenAPI says, checked on real answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

import ottla
from ottla.client.console.openapi import plain_path
from ottla.client.console.page_table import PAGES
from ottla.client.console.views.results import RESULTS
from tests.client.console.site import console_of
from tests.tidy.tree import ROOT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    import httpx

PATHS = {
    "/cluster": ["/cluster"],
    "/brokers/{broker:int}": ["/brokers/1"],
    "/topics": ["/topics?internal=1"],
    "/topics/{topic}": ["/topics/described"],
    "/topics/{topic}/messages": [
        "/topics/described/messages",
        "/topics/described/messages?from=oldest&limit=1&format=hex",
    ],
    "/topics/{topic}/record": ["/topics/described/record?offset=0"],
    "/topics/{topic}/alive": ["/topics/described/alive"],
    "/alive": ["/alive?rows=100"],
    "/groups": ["/groups"],
    "/group": ["/group?id=readers"],
    "/transactions": ["/transactions"],
    "/throughput": ["/throughput"],
    "/pipelines": ["/pipelines"],
    "/audit": ["/audit"],
    "/moves": ["/moves"],
    "/security": ["/security"],
}


@pytest.fixture(scope="module")
def described() -> Iterator[ottla.Cluster]:
    """Two brokers with users, rules, an audit topic, records, groups and an open transaction."""
    settings = {"ottla.audit.topic": "true", "ottla.audit.topic.replication.factor": "1"}
    with ottla.Cluster(
        brokers=2,
        security="sasl_plaintext",
        users={"root": "pw"},
        acls=[ottla.Acl("User:root", "Read", topic="described")],
        settings=settings,
    ) as cluster:
        cluster.create_topic("described", partitions=2)
        yield cluster


@pytest.fixture
async def browser(described: ottla.Cluster) -> AsyncIterator[httpx.AsyncClient]:
    """A browser of a console with the rights of the super user."""
    settings = described.client_settings("java")
    properties = {name: str(value) for name, value in settings.items()}
    async with console_of(described.bootstrap_servers, properties) as found:
        yield found


def strict(schema: Any) -> Any:
    """The schema, which refuses keys that it does not describe."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: strict(value) for name, value in schema.items()}
    if "properties" in found:
        found["additionalProperties"] = False
    return found


def _security(cluster: ottla.Cluster) -> dict[str, object]:
    """What a client of the cluster needs besides its address."""
    settings = cluster.client_settings()
    del settings["bootstrap.servers"]
    return settings


async def _prepare(cluster: ottla.Cluster, producer: ottla.Producer[Any, Any]) -> None:
    """A group with a position, and records of an open transaction."""
    await producer.init_transactions()
    await producer.begin_transaction()
    await producer.send("described", b'{"a": 1}', key=b"k", partition=0, headers=(("h", None),))
    await producer.flush()
    where = ottla.TopicPartition("described", 0)
    async with ottla.Admin(cluster.bootstrap_servers, security=_security(cluster)) as admin:
        await admin.groups.commit("readers", {where: ottla.Committed(0)})


async def test_each_page_is_described_and_each_answer_fits(
    described: ottla.Cluster, browser: httpx.AsyncClient
) -> None:
    """Each key that a page answers is described, and each described one is there."""
    assert PATHS.keys() == RESULTS.keys() == {one.path for one in PAGES}
    api = (await browser.get("/api/openapi.json")).json()
    jsonschema.Draft202012Validator.check_schema(api["components"]["schemas"])
    async with ottla.Producer(
        described.bootstrap_servers,
        security=_security(described),
        transactional_id="open",
    ) as producer:
        await _prepare(described, producer)
        found: dict[str, Any] = {}
        for path, asked in PATHS.items():
            name, schema = RESULTS[path]
            assert api["components"]["schemas"][name] == schema
            for one in asked:
                answer = await browser.get(f"/api{one}")
                assert answer.status_code == 200, (one, answer.text)
                jsonschema.validate(answer.json(), strict(schema))
                found[one] = answer.json()
        await producer.abort_transaction()

    # The lists had rows, or nothing would have been checked.
    assert found["/topics/described/record?offset=0"]["headers"]
    assert found["/transactions"]["transactions"]
    assert found["/groups"]["groups"]
    assert found["/security"]["users"]["rows"]
    assert found["/security"]["rules"]["rows"]
    assert found["/cluster"]["features"]


async def test_an_answer_with_another_key_is_noticed(browser: httpx.AsyncClient) -> None:
    """The check can fail: an undescribed key, a missing one, one of another kind."""
    document = (await browser.get("/api/cluster")).json()
    schema = strict(RESULTS["/cluster"][1])
    jsonschema.validate(document, schema)

    for broken in (
        {**document, "another": 1},
        {name: value for name, value in document.items() if name != "brokers"},
        {**document, "topics": "3"},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(broken, schema)


def test_the_page_about_the_console_names_the_path_of_each_page() -> None:
    """A program needs it for the JSON side, and a person for a bookmark."""
    text = (ROOT / "docs" / "console.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| ")]

    assert [spec.path for spec in PAGES if not _is_named(plain_path(spec.path), rows)] == []


def _is_named(path: str, rows: list[str]) -> bool:
    return any(f"`{path}`" in row for row in rows)
