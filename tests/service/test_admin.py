"""Exchange ``semq.admin``."""

import asyncio
import errno
import os
from collections.abc import Mapping
from typing import Any

from structlog.testing import capture_logs

from semq.amqp.content import ContentHeader, Properties
from semq.broker.services import SessionInfo
from semq.service.admin import RequestExchange
from tests.service.inprocess import InProcess, ask, ask_at
from tests.transport.publishing import publish_and_wait
from tests.waiting import until

DOCUMENT: dict[str, Any] = {"target": "10008", "body_base64": "eA=="}
ARGUMENTS = "SEMQ-2102"
# Operation | arguments | code of the answer
WRONG_REQUESTS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("nonsense", {}, "SEMQ-2101"),
    ("msg.show", {}, ARGUMENTS),
    ("msg.show", {"id": "\0"}, ARGUMENTS),
    ("msg.list", {"type": 5}, ARGUMENTS),
    ("msg.list", {"state": 5}, ARGUMENTS),
    ("msg.list", {"since_ms": 10**18}, ARGUMENTS),
    ("msg.list", {"limit": "many"}, ARGUMENTS),
    ("msg.list", {"nonsense": 1}, ARGUMENTS),
    ("failed.list", {"cause": "PARKED"}, ARGUMENTS),
    ("failed.list", {"partner": ["\0"]}, ARGUMENTS),
    ("failed.requeue", {"ids": [1 << 63]}, ARGUMENTS),
    ("failed.remove", {"ids": ["0"]}, ARGUMENTS),
    ("failed.remove", {"ids": 5}, ARGUMENTS),
    ("failed.remove", {"ids": []}, ARGUMENTS),
    ("msg.show", {"id": ""}, ARGUMENTS),
    ("msg.submit", DOCUMENT | {"headers": {"note": "a\0"}}, ARGUMENTS),
    ("msg.submit", DOCUMENT | {"body_base64": "?"}, ARGUMENTS),
    *(("node.drain", {"timeout_s": wait}, ARGUMENTS) for wait in ("inf", "nan", -1, 1e9)),
    ("msg.submit", DOCUMENT | {"sender": 5}, ARGUMENTS),
    ("msg.submit", DOCUMENT | {"sender": "x" * 65}, "SEMQ-1102"),
)


async def test_an_invalid_request_is_answered_with_its_error_code(inprocess: InProcess) -> None:
    node = await inprocess.local("10008", 1)
    admin = await inprocess.client(node)
    for operation, arguments, code in WRONG_REQUESTS:
        answer = await ask(admin, operation, arguments)
        assert not answer["ok"], operation
        assert answer["error"]["code"] == code, answer
        assert "its log has the reason" not in answer["error"]["text"]
    assert not node.engine.core.counters.counts
    assert not node.engine.acceptance.stopping


async def test_a_missing_unknown_or_wrong_argument_is_named(inprocess: InProcess) -> None:
    node = await inprocess.local("10008", 1)
    admin = await inprocess.client(node)
    answer = await ask(admin, "msg.show")
    assert answer["error"]["text"] == "msg.show needs the argument id."
    answer = await ask(admin, "msg.list", {"parner": "1"})
    assert answer["error"]["text"] == "msg.list has no argument parner; did you mean partner?"
    answer = await ask(admin, "msg.list", {"limit": 0})
    assert answer["error"]["text"] == "The argument limit of msg.list is wrong: Expected int >= 1."
    assert answer["error"]["facts"]["meaning"] == "Number of rows, at most."


async def test_every_act_is_logged_with_its_user(inprocess: InProcess) -> None:
    node = await inprocess.local("10008", 1)
    admin = await inprocess.client(node)
    with capture_logs() as lines:
        await ask(admin, "msg.submit", DOCUMENT)
        await ask(admin, "msg.cancel", {"id": "nothing"})
        await ask(admin, "msg.list")
    acts = [line for line in lines if line["event"].startswith("act_")]
    assert [(line["event"], line["operation"], line["user"], line["door"]) for line in acts] == [
        ("act_done", "msg.submit", "guest", "amqp"),
        ("act_refused", "msg.cancel", "guest", "amqp"),
    ]
    assert acts[1]["code"] == "SEMQ-1207"


async def test_a_node_lists_its_own_operations(inprocess: InProcess) -> None:
    node = await inprocess.local("10008", 1)
    rows = (await ask(await inprocess.client(node), "node.operations"))["result"]
    assert [row["name"] for row in rows] == sorted(node.operations)
    (body,) = (row for row in rows if row["name"] == "msg.body")
    assert (body["kind"], body["role"]) == ("look", "payload")
    assert body["arguments"]["$defs"]["ReadBody"]["required"] == ["id"]


async def test_a_file_that_cannot_be_written_is_named_in_the_answer(inprocess: InProcess) -> None:
    node = await inprocess.local("10008", 1)

    async def write(session: SessionInfo, arguments: Mapping[str, Any]) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(arguments["file"]))

    vhost = node.server.vhosts["/"]
    vhost.register(RequestExchange("full", vhost, {"write": write}))
    answer = await ask_at(await inprocess.client(node), "full", "write", {"file": "/keys/slots"})
    assert (answer["error"]["code"], answer["error"]["retry"]) == ("SEMQ-2106", True)
    assert answer["error"]["facts"] == {"file": "/keys/slots", "reason": "No space left on device"}


async def test_requests_of_one_user_are_limited_over_all_connections(inprocess: InProcess) -> None:
    node = await inprocess.local("10008", 1)
    began, proceed = [0], asyncio.Event()

    async def wait(session: SessionInfo, arguments: Mapping[str, Any]) -> None:
        began[0] += 1
        await proceed.wait()

    vhost = node.server.vhosts["/"]
    vhost.register(RequestExchange("slow", vhost, {"wait": wait}, at_once=3, body_max=100))
    first, second = await inprocess.client(node), await inprocess.client(node)
    waiting = [asyncio.ensure_future(ask_at(first, "slow", "wait")) for _ in range(3)]
    await until(lambda: began[0] == 3)
    result = await ask_at(second, "slow", "wait")
    assert (result["ok"], result["error"]["code"], result["error"]["retry"]) == (False, "SEMQ-2103", True)
    channel = await second.open_channel()
    await channel.confirm_select()
    header = ContentHeader.build(2, Properties(reply_to="nowhere"))
    assert not await publish_and_wait(channel, "slow", "wait", header, b"{}")
    proceed.set()
    assert [answer["ok"] for answer in await asyncio.gather(*waiting)] == [True] * 3
    assert (await ask_at(second, "slow", "wait"))["ok"]
    assert began == [4]
