"""The OpenAPI documents are complete and valid, and a change of the API is visible in ``shape.txt``."""

import json
from collections.abc import Iterable
from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator

from platform_node.node import HubNode
from semq.web.api import routes
from semq.web.api.description import description
from semq.web.api.endpoint import Endpoint
from semq.web.node.operations import table
from tests.web.api.shape import FILE, KINDS, document, shape
from tests.web.running import serving


def test_the_committed_shape_is_current() -> None:
    assert FILE.read_text("utf-8") == shape(), "run: ./run python -m tests.web.api.shape"


@pytest.mark.parametrize("kind", KINDS)
def test_every_operation_has_an_endpoint_with_its_role(kind: str) -> None:
    content = document(kind)
    rights = {
        method["operationId"]: method["x-semq-rights"] for path in content["paths"].values() for method in path.values()
    }
    for row in table(kind).values():
        assert rights[f"{row.name}.post"] == [row.role.value]


@pytest.mark.parametrize("kind", KINDS)
def test_all_references_exist_and_all_schemas_are_valid(kind: str) -> None:
    content = document(kind)
    for schema in content["components"]["schemas"].values():
        Draft202012Validator({**schema, "components": content["components"]})
    text = json.dumps(content)
    for reference in {part.partition('"')[0] for part in text.split('"$ref": "#/')[1:]}:
        node = content
        for step in reference.split("/"):
            node = node[step]


async def test_the_document_is_made_once_for_all_requests(hub: HubNode, monkeypatch: pytest.MonkeyPatch) -> None:
    made_kinds: list[str] = []

    def noted_description(kind: str, rows: Iterable[Endpoint]) -> dict[str, Any]:
        made_kinds.append(kind)
        return description(kind, rows)

    monkeypatch.setattr(routes, "description", noted_description)
    async with serving(hub) as site:
        browser = await site.browser()
        answers = [await browser.get("/api/v1/openapi.json") for _ in range(3)]
        assert len({answer.text for answer in answers}) == len(made_kinds) == 1


async def test_an_address_with_an_additional_slash_has_no_route(hub: HubNode) -> None:
    async with serving(hub) as site:
        answer = await (await site.browser()).get("/api/v1/openapi.json/", headers={"host": "localhost:1"})
        assert (answer.status_code, answer.headers.get("location")) == (404, None)


async def test_everybody_may_read_the_document(hub: HubNode) -> None:
    async with serving(hub) as site:
        answer = await (await site.browser()).get("/api/v1/openapi.json")
        assert answer.json() == document("platform")
