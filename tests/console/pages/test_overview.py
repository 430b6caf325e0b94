"""The start page: which partners it shows as offline."""

import re

import pytest

from semq.answers.messages import Sums
from semq.console.pages.overview import offline_partners
from tests.console.scene import Scene


def test_offline_partners_follow_their_messages_without_those_shown_as_stuck() -> None:
    nodes = [f"1.{number}" for number in range(56001, 56005)]
    pairs: list[Sums] = [
        {"source": source, "target": node, "rows": rows, "online": node == nodes[3]}
        for rows, node in zip((3, 9, 5, 7), nodes, strict=True)
        for source in ("1.10008", "1.10009")
    ]
    pairs.append({"source": "1.10008", "target": "1.88001", "rows": 1, "online": None})  # not known
    offline = list(offline_partners(pairs, {nodes[1]}))
    assert [(partner["node"], partner["waiting"]) for partner in offline] == [(nodes[2], 10), (nodes[0], 6)]


@pytest.mark.asyncio(loop_scope="session")
async def test_a_failed_document_is_counted_among_the_failed_ones_and_not_among_the_stuck_ones(scene: Scene) -> None:
    page = (await (await scene.sites["node"].signed_in("viewer")).get("/")).text
    figures = {
        label: int(number) for number, label in re.findall(r'class="figure" href="[^"]*">(\d+)</a>([^<]+)<', page)
    }
    census = await scene.ask("node", "queue.census")
    assert (figures["failed"], figures["stuck"]) == (census["failed"], census["stuck"] - census["failed"])
