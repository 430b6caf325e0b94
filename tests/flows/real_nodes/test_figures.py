"""Figures of real nodes in each situation of a table: everything that shows a figure shows the same, right one.

| column    | documents                                              | shown by                                        |
|-----------|--------------------------------------------------------|-------------------------------------------------|
| `waiting` | sent or stored here, and not ended                     | queue.census, metrics, `semq top`, Overview     |
| `inbox`   | in the inboxes here, and not acknowledged              | queue.census, metrics, msg.list, broker.queues, |
|           |                                                        | `semq top`, Overview                            |
| `taken`   | the part of these that applications have               | broker.queues                                   |
| `offline` | the part of `waiting` whose institution is known to be | queue.census, metrics, Overview                 |
|           | offline                                                |                                                 |
| `oldest`  | where the oldest of them is                            | `semq check oldest`, metrics                    |
| `alerts`  | if the situation lasts for two hours                   | deploy/prometheus, by promtool                  |
"""

import json
import re
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr

from bench.ports import free_port
from local_node.node import LocalNode
from platform_node.node import HubNode
from semq.clock import SystemClock
from semq.config.settings import Settings
from semq.store.embedded.server import EmbeddedPostgres
from semq.transport.client import ClientLink
from tests.cli.command import semq_aside
from tests.conftest import new_database_of
from tests.deploy import promtool
from tests.deploy.programs import PROMTOOL
from tests.service.inprocess import HUB_CONFIG, LOCAL_CONFIG, InProcess, ask, linked
from tests.waiting import until
from tests.web.running import Site, serving

TABLE = """
situation                 node | waiting inbox taken offline oldest          alerts
at rest                   a    | 0       0     0     0       -               -
at rest                   b    | 0       0     0     0       -               -
at rest                   hub  | 0       0     0     0       -               -
b is away                 a    | 3       0     0     3       for 1.56001     SemqPartnerOffline
b is away                 hub  | 3       0     0     3       for 1.56001     SemqPartnerOffline
the hub was restarted     a    | 3       0     0     3       for 1.56001     SemqPartnerOffline
the hub was restarted     hub  | 3       0     0     3       for 1.56001     SemqPartnerOffline
no application reads      a    | 0       0     0     0       -               -
no application reads      hub  | 0       0     0     0       -               -
no application reads      b    | 0       3     0     0       in semq.inbox   SemqInboxUnread
one document is taken     b    | 0       3     1     0       in semq.inbox   SemqInboxUnread
b was restarted           b    | 0       3     0     0       in semq.inbox   SemqInboxUnread
all documents are read    b    | 0       0     0     0       -               -
b was restored            b    | 0       3     0     0       in semq.inbox   SemqCheckWarns,SemqInboxUnread
the hub is away           a    | 1       0     0     0       for 1.56001     SemqCheckFails
"""
HOURS_2 = 120  # minutes
WAITING_STATES = ("SS_INIT", "SS_SENT", "SS_ACK_FWD", "SS_ACK")


@dataclass
class Row:
    """A row of the table."""

    situation: str
    node: str
    numbers: dict[str, int]
    oldest: str
    alerts: list[str]


def rows() -> Iterator[Row]:
    heading, *lines = TABLE.strip().splitlines()
    columns = heading.partition("|")[2].split()[:4]
    for line in lines:
        place, _, cells = line.partition(" | ")
        situation, node = place.rsplit(maxsplit=1)
        *numbers, rest = cells.split(maxsplit=4)
        oldest, alerts = (text.strip() for text in rest.rsplit(maxsplit=1))
        named = [] if alerts == "-" else alerts.split(",")
        yield Row(situation.strip(), node, dict(zip(columns, map(int, numbers), strict=True)), oldest, named)


@dataclass
class NodeWithPages:
    """A node, its web process and a client."""

    settings: Settings
    node: LocalNode | HubNode
    client: ClientLink
    site: Site
    stack: AsyncExitStack

    async def ask(self, operation: str, **arguments: Any) -> Any:
        answer = await ask(self.client, operation, arguments)
        assert answer["ok"], answer
        return answer["result"]

    async def run(self, *words: str) -> Any:
        """Run a command at this node; return its JSON value."""
        url = f"amqp://guest:guest@127.0.0.1:{self.node.port}"
        return json.loads((await semq_aside(*words, "--json", "--node", url)).out)


class FigureScene:
    """The nodes of the test."""

    def __init__(self, nodes: InProcess) -> None:
        self.nodes = nodes
        self.running: dict[str, NodeWithPages] = {}

    async def start(self, name: str, settings: Settings) -> None:
        node = HubNode(settings, SystemClock()) if name == "hub" else LocalNode(settings, SystemClock())
        await node.start()
        stack = AsyncExitStack()
        stack.push_async_callback(node.stop)
        site = await stack.enter_async_context(serving(node))
        self.running[name] = NodeWithPages(settings, node, await self.nodes.client(node), site, stack)

    async def stop(self, name: str) -> Settings:
        running = self.running.pop(name)
        await running.stack.aclose()
        return running.settings

    async def until_linked(self, name: str) -> None:
        node = self.running[name].node
        assert isinstance(node, LocalNode)
        await linked(node)


async def seen_numbers(at: NodeWithPages) -> dict[str, list[int]]:
    """Return, for each column, what each place shows."""
    is_local = isinstance(at.node, LocalNode)
    census = await at.ask("queue.census")
    exported = promtool.samples(await metrics_of(at))
    figures = {sample.name: sample.value for sample in exported}
    pairs = [sample.value for sample in exported if sample.name == "semq_pair_waiting_rows"]
    queues = (await at.ask("broker.queues", name="semq.inbox"))["rows"]
    browser = await at.site.signed_in("viewer")
    page = (await browser.get("/")).text
    cards = dict(re.findall(r'<a class="figure" href="([^"]+)">(\d+)</a>', page))
    top = (await at.run("top", "--count", "1"))["queues"]
    unread = [number for address, number in cards.items() if "state=NEW" in address]
    numbers: dict[str, list[Any]] = {
        "waiting": [
            sum(pair["rows"] for pair in census["pairs"]),
            sum(census["sent"].get(state, 0) for state in WAITING_STATES), sum(pairs),
            sum(pair["rows"] for pair in top["pairs"]), cards.get("/partners"),
        ],
        "inbox": [
            sum(inbox["rows"] for inbox in census["inboxes"]), census["received"].get("NEW", 0),
            len((await at.ask("msg.list", side="inbound", state="NEW"))["rows"]),
            sum(queue["ready"] + queue["unacked"] for queue in queues), sum(inbox["rows"] for inbox in top["inboxes"]),
            *([figures["semq_inbox_rows"], *unread] if is_local else []),
        ],
        "taken": [sum(queue["unacked"] for queue in queues)],
        "offline": [
            sum(pair["rows"] for pair in census["pairs"] if pair["online"] is False), figures["semq_offline_rows"],
            sum(map(int, re.findall(r"is offline: (\d+) document", page))),
        ],
    }  # fmt: skip
    assert len(unread) == is_local
    assert [queue["name"] for queue in queues][:1] == (["semq.inbox"] if is_local else [])
    return {column: [int(value) for value in values] for column, values in numbers.items()}


async def metrics_of(at: NodeWithPages) -> str:
    return str((await at.ask("node.metrics", detailed=True))["text"])


async def check_row(row: Row, at: NodeWithPages) -> None:
    """Wait until everything shows the numbers of the row; then check the oldest document and the alerts."""
    seen: dict[str, list[int]] = {}

    async def is_right() -> bool:
        nonlocal seen
        if not (await at.ask("queue.census"))["as_of"]:
            return False
        seen = await seen_numbers(at)
        return all(set(values) == {row.numbers[column]} for column, values in seen.items())

    try:
        await until(is_right, 60)
    except TimeoutError:
        raise AssertionError(f"{row}: {seen}") from None
    check = await at.run("check", "oldest")
    text = await metrics_of(at)
    [age_s] = [sample.value for sample in promtool.samples(text) if sample.name == "semq_queue_oldest_seconds"]
    if row.oldest == "-":
        assert (check["text"], check["value"], age_s) == ("no document is open", 0, 0), row
    else:
        assert row.oldest in check["text"], row
        assert min(check["value"], age_s) > 0, row
    if PROMTOOL:
        exported = promtool.samples(text, instance=row.node, job="semq")
        values = {sample.series: promtool.growing(sample, HOURS_2, with_traffic=False) for sample in exported}
        expected = promtool.firing(row.alerts, HOURS_2)
        assert promtool.evaluate(promtool.expectation(values, promql_expr_test=[expected])) == "", row


async def test_everything_that_shows_a_figure_shows_the_right_one_in_each_situation(
    inprocess: InProcess, postgres: EmbeddedPostgres
) -> None:
    table = list(rows())
    checked = 0
    scene = FigureScene(inprocess)
    at = scene.running

    async def situation(name: str) -> None:
        nonlocal checked
        for row in (row for row in table if row.situation == name):
            await check_row(row, at[row.node])
            checked += 1

    with ExitStack() as databases:
        async with AsyncExitStack() as stack:
            port = free_port()
            await scene.start("hub", inprocess.settings("hub", HUB_CONFIG.replace("port = 0", f"port = {port}")))
            for name, number in (("a", "10008"), ("b", "56001")):
                await scene.start(name, inprocess.settings(number, LOCAL_CONFIG.format(name=number, hub=port)))
                await scene.until_linked(name)

            async def stop_all() -> None:
                for name in list(at):
                    await scene.stop(name)

            stack.push_async_callback(stop_all)
            await situation("at rest")
            stopped = await scene.stop("b")
            for target in ("56001", "56001", "56001/web"):
                await at["a"].ask("msg.submit", target=target, app_key="trade/order//S")
            await situation("b is away")
            await scene.start("hub", await scene.stop("hub"))
            await scene.until_linked("a")
            await situation("the hub was restarted")
            await scene.start("b", stopped)
            await scene.until_linked("b")
            await situation("no application reads")
            channel = await at["b"].client.open_channel()
            await channel.qos(1)
            await channel.consume("semq.inbox", lambda batch: None)
            await situation("one document is taken")
            await scene.start("b", await scene.stop("b"))
            await scene.until_linked("b")
            await situation("b was restarted")
            stopped = await scene.stop("b")
            assert stopped.database.url is not None
            database = stopped.database.url.get_secret_value().rpartition("/")[2].partition("?")[0]
            copy = databases.enter_context(new_database_of(postgres, template=database))
            await scene.start("b", stopped)
            channel = await at["b"].client.open_channel()
            for inbox in ("semq.inbox", "semq.inbox.web"):
                await channel.consume(inbox, lambda batch: None, no_ack=True)
            await situation("all documents are read")
            stopped = await scene.stop("b")
            restored = stopped.model_copy(
                update={"database": stopped.database.model_copy(update={"url": SecretStr(copy)})}
            )
            await scene.start("b", restored)
            await scene.until_linked("b")
            await situation("b was restored")
            await scene.stop("hub")
            await at["a"].ask("msg.submit", target="56001", app_key="trade/order//S")
            await situation("the hub is away")
    assert checked == len(table)
