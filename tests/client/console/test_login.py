"""Visitors of a cluster with users log in with the rights of theirs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import httpx
import pytest

import ottla
from ottla.client.console.attempts import PAIR
from ottla.client.console.connections import ClusterAccess, ConsoleConnection
from ottla.client.console.streams import Tails
from ottla.client.console.views.asked import Question
from ottla.client.console.visits import VISITS_OF_USER_MAX, TypedLogin, Visits
from ottla.client.process.environment import real_environment
from ottla.wire.errors import ClientClosed
from tests.client.console.site import BASE, console_of, form_token_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

NEEDS_LOGIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256"}


@pytest.fixture(scope="module")
def secured() -> Iterator[ottla.Cluster]:
    """A broker with a user who may see one topic."""
    rules = [
        ottla.Acl("User:reader", "Describe,DescribeConfigs", topic="seen"),
        ottla.Acl("User:follower", "Read", topic="read"),
    ]
    with ottla.Cluster(
        security="sasl_plaintext", users={"reader": "open sesame", "follower": "pw"}, acls=rules
    ) as cluster:
        cluster.create_topic("seen")
        cluster.create_topic("hidden")
        cluster.create_topic("read")
        yield cluster


@pytest.fixture
async def browser(secured: ottla.Cluster) -> AsyncIterator[httpx.AsyncClient]:
    """A browser of a console without a user of its own."""
    async with console_of(secured.bootstrap_servers, NEEDS_LOGIN) as found:
        yield found


async def _log_in(
    browser: httpx.AsyncClient, password: str, headers: dict[str, str] | None = None
) -> httpx.Response:
    page = await browser.get("/login")
    fields = {
        "form_token": form_token_of(page.text),
        "user": "reader",
        "password": password,
        "mechanism": "SCRAM-SHA-256",
        "next": "/topics?search=e",
    }
    return await browser.post("/login", data=fields, headers=headers)


async def test_without_a_login_there_is_only_the_form(browser: httpx.AsyncClient) -> None:
    """The page that was asked for comes after the login; a program is told so."""
    page = await browser.get("/topics", params={"search": "a b"})
    api = await browser.get("/api/topics")

    assert page.status_code == 303
    assert page.headers["location"] == "/login?next=%2Ftopics%3Fsearch%3Da%2Bb"
    assert (api.status_code, api.json()) == (401, {"error": "log in first"})


async def test_a_visitor_sees_what_the_user_may_see(browser: httpx.AsyncClient) -> None:
    """The console has no rights of its own: the brokers decide by the user."""
    answer = await _log_in(browser, "open sesame")
    listed = (await browser.get("/api/topics")).json()
    hidden = await browser.get("/topics/hidden")

    assert (answer.status_code, answer.headers["location"]) == (303, "/topics?search=e")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert [row["topic"] for row in listed["topics"]] == ["seen"]
    assert hidden.status_code in (403, 404)


async def test_a_login_changes_the_cookie(browser: httpx.AsyncClient) -> None:
    """A cookie that another site has planted before must not become one with rights."""
    await browser.get("/login")
    before = browser.cookies["ottla_console"]
    await _log_in(browser, "open sesame")

    assert browser.cookies["ottla_console"] != before
    async with httpx.AsyncClient(
        transport=browser._transport, base_url=BASE, cookies={"ottla_console": before}
    ) as old:
        assert (await old.get("/api/topics")).status_code == 401


async def test_a_wrong_password_is_refused(browser: httpx.AsyncClient) -> None:
    """The form comes again, with the reason and without the password."""
    answer = await _log_in(browser, "guessed")

    assert answer.status_code == 401
    assert 'role="alert"' in answer.text
    assert "guessed" not in answer.text
    assert "The user, the password or the mechanism is wrong." in answer.text
    assert (await browser.get("/api/topics")).status_code == 401


async def test_a_user_has_so_many_visits(secured: ottla.Cluster) -> None:
    """Each keeps a password and a connection; the one that was longest unused ends first."""
    visits = Visits(
        ClusterAccess(secured.bootstrap_servers, NEEDS_LOGIN, real_environment()), must_log_in=True
    )
    login = TypedLogin("reader", "open sesame", "SCRAM-SHA-256", "192.0.2.1")
    found = [await visits.log_in(visits.begin(), login) for _ in range(VISITS_OF_USER_MAX + 1)]
    known = [visits.find(one.name) is one for one in found]
    visits.close()

    assert known == [False] + [True] * VISITS_OF_USER_MAX


async def test_guessing_is_slowed_down(secured: ottla.Cluster) -> None:
    """With the status and the header that programs understand; the right password waits, too."""
    async with console_of(secured.bootstrap_servers, NEEDS_LOGIN) as browser:
        statuses = [(await _log_in(browser, "guessed")).status_code for _ in range(PAIR.free)]
        refused = await _log_in(browser, "open sesame")

    assert statuses == [401] * PAIR.free
    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "1"
    assert "too many attempts: try again in 1 s" in refused.text


async def test_a_login_form_of_another_site_is_refused(browser: httpx.AsyncClient) -> None:
    """It would log a visitor in as a user of the attacker's choice."""
    foreign = await _log_in(browser, "open sesame", {"origin": "http://evil.example"})
    browser.cookies.clear()
    without_token = await browser.post("/login", data={"user": "reader", "password": "x"})

    assert "another site" in foreign.text
    assert "load its page again" in without_token.text
    assert (await browser.get("/api/topics")).status_code == 401


async def test_a_logout_ends_the_rights(browser: httpx.AsyncClient) -> None:
    """Only for a form with the token: another site must not log visitors out."""
    await _log_in(browser, "open sesame")
    token = form_token_of((await browser.get("/topics")).text)

    refused = await browser.post("/logout", data={"form_token": "0"})
    assert refused.status_code == 403
    assert (await browser.get("/api/topics")).status_code == 200
    answer = await browser.post("/logout", data={"form_token": token})

    assert answer.status_code == 303
    assert (await browser.get("/api/topics")).status_code == 401


async def test_a_logout_ends_live_tails(secured: ottla.Cluster) -> None:
    """They would go on with the rights of a user who has left, and nothing connects again."""
    own = {**NEEDS_LOGIN, "sasl.username": "follower", "sasl.password": "pw"}
    access = ClusterAccess(secured.bootstrap_servers, own, real_environment())
    connection = ConsoleConnection(access)
    events = Tails().events(connection, Question({"topic": "read"}, {}))
    assert b"ready" in await anext(events)
    connection.close()
    async with asyncio.timeout(30):
        assert b"event:" not in b"".join([one async for one in events])
    with pytest.raises(ClientClosed, match="logged out"):
        await connection.topics(fresh=True)


async def test_the_way_back_stays_in_the_console(browser: httpx.AsyncClient) -> None:
    """A link to the log-in page must not lead on to another site."""
    for target in ("//evil.example", "https://evil.example", "/\\evil.example", "\n/x"):
        page = await browser.get("/login", params={"next": target})
        assert 'name="next" value="/"' in page.text


async def test_the_console_may_have_a_user_of_its_own(secured: ottla.Cluster) -> None:
    """The settings of a file name it; ``--login`` sets it aside."""
    own = {**NEEDS_LOGIN, "sasl.username": "reader", "sasl.password": "open sesame"}
    async with console_of(secured.bootstrap_servers, own) as with_user:
        assert (await with_user.get("/api/topics")).status_code == 200
    async with console_of(secured.bootstrap_servers, own, must_log_in=True) as without:
        assert (await without.get("/api/topics")).status_code == 401


async def test_a_cluster_with_users_is_recognized_without_settings(
    secured: ottla.Cluster,
) -> None:
    """The page says that a login may help, and the form works."""
    async with console_of(secured.bootstrap_servers) as browser:
        page = await browser.get("/topics")
        assert page.status_code in (401, 502)
        assert '<a href="/login">log in</a>' in page.text
        await _log_in(browser, "open sesame")
        assert (await browser.get("/api/topics")).status_code == 200
