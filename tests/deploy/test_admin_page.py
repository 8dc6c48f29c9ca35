"""The reference of the admin client says what its docstrings say."""

from __future__ import annotations

import pytest

from ottla.client.admin import Admin
from ottla.client.administration.users import UserAdmin
from tests.deploy.admin_page import PAGE, PARTS, methods_of, page, requests_of


def test_the_page_says_what_the_docstrings_say() -> None:
    """``python -m tests.deploy.admin_page`` writes the page."""
    assert PAGE.read_text("utf-8") == page()


@pytest.mark.parametrize("name", PARTS)
def test_each_part_is_an_attribute_of_the_admin_client(name: str) -> None:
    """A part that is added to the client is added to the page."""
    admin = Admin("127.0.0.1:9092")
    try:
        found = {"admin"} | {
            f"admin.{attribute}"
            for attribute in dir(admin)
            if not attribute.startswith("_") and type(getattr(admin, attribute)) in PARTS.values()
        }
    finally:
        admin.close()

    assert name in found
    assert found == PARTS.keys()


def test_requests_are_found_through_helpers_with_their_versions() -> None:
    """An operator looks up which versions of Kafka a method needs."""
    methods = dict(methods_of(Admin))
    users = dict(methods_of(UserAdmin))

    assert requests_of(Admin, methods["list_offsets"])["ListOffsets"][0] >= 1
    assert requests_of(UserAdmin, users["describe_users"]) == {
        "DescribeUserScramCredentials": (0, 0)
    }
