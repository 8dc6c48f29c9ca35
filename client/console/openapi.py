"""Describes the JSON API of the console in OpenAPI. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ottla.client.console.views.asked import Document, Parameter

_IN_PATH = re.compile(r"\{(\w+)(?::(\w+))?\}")


def plain_path(path: str) -> str:
    """Return a path without the types of its parameters."""
    return _IN_PATH.sub(r"{\1}", path)


def describe(
    version: str,
    pages: Iterable[tuple[str, str, tuple[Parameter, ...]]],
    results: Mapping[str, tuple[str, Document]],
) -> Document:
    """Return the description of all pages by path: summary, parameters, and the name and schema of
    the response."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Ottla console",
            "version": version,
            "description": "What the pages of the console show, as JSON. Keys that are documented "
            "here stay; others may be added.",
        },
        "paths": {
            f"/api{plain_path(path)}": {
                "get": _operation(path, summary, parameters, results[path][0])
            }
            for path, summary, parameters in pages
        },
        "components": {
            "schemas": {
                **dict(results.values()),
                "Failure": {
                    "type": "object",
                    "required": ["error"],
                    "properties": {"error": {"type": "string"}},
                },
            }
        },
    }


def _operation(path: str, summary: str, parameters: tuple[Parameter, ...], result: str) -> Document:
    in_path = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "integer" if kind == "int" else "string"},
        }
        for name, kind in _IN_PATH.findall(path)
    ]
    in_query = [
        {
            "name": one.name,
            "in": "query",
            "description": one.meaning,
            "schema": {"type": one.kind},
        }
        for one in parameters
    ]
    failure = {
        "description": "Why there is no answer",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Failure"}}},
    }
    document = {
        "description": summary,
        "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{result}"}}},
    }
    return {
        "summary": summary,
        "operationId": "_".join(re.findall(r"\w+", plain_path(path))),
        "parameters": [*in_path, *in_query],
        "responses": {"200": document, "default": failure},
    }
