"""Requests that Schemathesis makes from the OpenAPI document.

All are made with all rights; the first one of each endpoint also with one right that is enough, and with all rights
together that are not enough. Without a right that the document names, the answer is 403, 404, 405, or a 400 of the
parser of HTTP. No status may be 500 or more, except 503 and 504. Errors other than 400 are problem documents.
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from semq.access_rights import RIGHTS, AccessRole, AccessScope, rights_of
from tests.depth import deeper
from tests.service.inprocess import InProcess, linked
from tests.web.api.shape import KINDS, document
from tests.web.running import serving

REQUEST_ARGUMENTS = ("method", "params", "json", "data", "content")
DEEP_EXAMPLES = 10  # examples of each endpoint with --deep; otherwise one each, alternately valid and invalid
MODES = ("POSITIVE", "NEGATIVE")
QUERY_MAX = 65_536  # characters of the longest query that httpx sends
# Streams do not end, and polls of the inbox wait; draining, reloading and this document have tests of their own.
LEFT_OUT = {"events", "node.drain.post", "node.reload.post", "inbox.receive", "openapi"}

ALL_RIGHTS = tuple(str(right) for right in (*AccessRole, *AccessScope))
Ask = Callable[[tuple[str, ...], dict[str, Any]], tuple[int, str]]


@pytest.mark.parametrize("kind", KINDS)
async def test_every_request_gets_an_expected_answer_and_only_with_its_right(
    inprocess: InProcess, kind: str, pytestconfig: pytest.Config
) -> None:
    """At the hub, operations that both kinds of nodes have are searched only with --deep."""
    is_deep = pytestconfig.getoption("deep")
    left_out = set(LEFT_OUT)
    if kind == "platform" and not is_deep:
        local = operations_of("local")
        left_out |= {name for name, operation in operations_of(kind).items() if local.get(name) == operation}
    hub = await inprocess.hub()
    node = hub if kind == "platform" else await inprocess.local("10008", hub.port)
    if kind == "local":
        await linked(node)  # type: ignore[arg-type]
    async with serving(node, burst=1_000_000) as site:
        combinations = {rights for operation in operations_of(kind).values() for rights in combinations_for(operation)}
        programs = {rights: await site.program(*rights) for rights in combinations}
        loop = asyncio.get_running_loop()

        def ask(rights: tuple[str, ...], request: dict[str, Any]) -> tuple[int, str]:
            answer = asyncio.run_coroutine_threadsafe(programs[rights].request(**request), loop).result(120)
            return answer.status_code, answer.headers.get("content-type", "")

        await asyncio.to_thread(search, kind, left_out, ask, is_deep)


def search(kind: str, left_out: set[str], ask: Ask, is_deep: bool) -> None:
    import schemathesis  # not at the top: every worker of pytest imports this file, but only one runs these tests

    turns = cycle(MODES)
    schema = schemathesis.openapi.from_dict(document(kind))
    for result in schema.get_all_operations():
        operation: Any = result.ok()  # type: ignore[union-attr] # the document is valid: test_description
        if operation.definition.raw["operationId"] not in left_out:
            modes, examples = (MODES, DEEP_EXAMPLES) if is_deep else ((next(turns),), 1)
            try_out(operation, ask, modes, examples)


def operations_of(kind: str) -> dict[str, Any]:
    methods = [method for path in document(kind)["paths"].values() for method in path.values()]
    return {method["operationId"]: method for method in methods if "operationId" in method}


def combinations_for(operation: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return the rights to try for an operation. With --deep, each right that is enough is tried alone."""
    sufficient = [right for right in ALL_RIGHTS if is_sufficient(operation, (right,))]
    others = tuple(right for right in ALL_RIGHTS if right not in sufficient)
    alone = sufficient[: deeper(1, len(ALL_RIGHTS))]
    return [rights for rights in (ALL_RIGHTS, *((right,) for right in alone), others) if rights]


def is_sufficient(operation: dict[str, Any], rights: tuple[str, ...]) -> bool:
    """Return whether these rights are enough for an operation, according to its description."""
    needed = operation["x-semq-rights"]
    return not needed or any(RIGHTS[right] in rights_of(rights) for right in needed)


def may_send_header(name: str, value: str) -> bool:
    """Return whether the client can send a header, and the header does not log in as another user."""
    return name.lower() != "authorization" and value.isascii() and value.isprintable() and value == value.strip()


def is_short_enough(request: dict[str, Any]) -> bool:
    return len(str(httpx.QueryParams(request.get("params")))) <= QUERY_MAX


def try_out(operation: Any, ask: Ask, modes: Sequence[str], examples: int) -> None:
    """Make the first request with each combination of rights, and every further request with all rights."""
    from schemathesis.generation import GenerationMode

    strategies = [operation.as_strategy(generation_mode=GenerationMode[mode]) for mode in modes]
    strategy: st.SearchStrategy[Any] = st.one_of(strategies)
    combinations = combinations_for(operation.definition.raw)

    @settings(
        max_examples=examples, database=None, deadline=None, derandomize=True, phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(strategy)
    def make_requests(case: Any) -> None:
        request = request_of(case)
        assume(is_short_enough(request))
        for rights in combinations:
            check(operation, rights, request, ask)
        combinations[1:] = []

    make_requests()


def request_of(case: Any) -> dict[str, Any]:
    request = case.as_transport_kwargs(base_url="http://any")
    wanted = {name: request[name] for name in REQUEST_ARGUMENTS if request.get(name) is not None}
    if isinstance(wanted.get("data"), bytes | str):
        wanted["content"] = wanted.pop("data")
    headers = {name: value for name, value in (request.get("headers") or {}).items() if may_send_header(name, value)}
    return {"url": request["url"].removeprefix("http://any"), "headers": headers, **wanted}


def check(operation: Any, rights: tuple[str, ...], request: dict[str, Any], ask: Ask) -> None:
    is_allowed = is_sufficient(operation.definition.raw, rights)
    status, kind = ask(rights, request)
    is_refused = status in (403, 404, 405) or (status == 400 and not kind.endswith("json"))
    assert is_allowed or is_refused, (operation.label, rights, status, request)
    assert status < 500 or status in (503, 504), (operation.label, rights, status, request)
    assert status < 400 or kind == "application/problem+json" or status == 400, (operation.label, rights, status, kind)
