"""The pictures of README.md, made of three nodes and a few documents, so that they can be made again.

`SEMQ_PICTURES=docs/pictures ./run test tests/console/test_pictures.py` writes them into the repository; otherwise they
are written to the temporary files of the test.
"""

import os
from pathlib import Path

import pytest

from tests.console.scene import Scene
from tests.service.inprocess import HUB_CONFIG, LOCAL, InProcess, linked
from tests.waiting import until
from tests.web.running import serving

ROOT = Path(__file__).parents[2]
PICTURES = ("overview.png", "message.png", "phone.png")
SIZE_MAX = 250_000

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_pictures_are_made_of_running_nodes(shown: Scene, nodes: InProcess, tmp_path: Path) -> None:
    folder = ROOT / os.environ["SEMQ_PICTURES"] if "SEMQ_PICTURES" in os.environ else tmp_path
    nodes = InProcess(nodes.stack, tmp_path, nodes.new_database)  # with files of its own
    hub = await nodes.hub(HUB_CONFIG.replace('["56001", "10008"]', '["56001", "88001", "10008"]'))
    text = LOCAL.replace("inquiry_s = 0.5", "inquiry_s = 15") + "overdue_s = 0.5\n"
    a = await nodes.started(nodes.settings("10008", text.format(name="10008", hub=hub.port)))
    b = await nodes.local("56001", hub.port)
    await linked(a, b)
    async with serving(a) as site:
        made = Scene(hub, a, {"node": await nodes.client(a)}, {"node": site}, shown.browser)
        await _trade(made)
        async with made.visit("node", "operator", "payload") as page:
            await page.goto("/")
            await page.screenshot(path=folder / "overview.png")
            await page.goto(f"/messages/{made.names['order']}")
            await page.locator("#line").get_by_text("2.hub").first.wait_for()
            await page.screenshot(path=folder / "message.png")
        async with made.visit("node", "operator", language="zh", dark=True, phone=True) as page:
            await page.goto("/")
            await page.screenshot(path=folder / "phone.png")
    for name in PICTURES:
        assert 10_000 < (folder / name).stat().st_size < SIZE_MAX, name


async def _trade(made: Scene) -> None:
    """Make documents: delivered, waiting for an offline institution, and failed."""
    for number in range(40):
        await made.send("56001", f"trade/order//LW-{2000 + number}")
    made.names["order"] = await made.send("56001", "trade/order//LW-2041")
    for number in range(7):
        await made.send("88001", f"trade/invoice//JN-{number}")
    failed = await made.send("10008", "trade/statement//KA-12")

    async def here() -> bool:
        return bool((await made.ask("node", "msg.search", side="inbound"))["rows"])

    await until(here)
    await made.ask("node", "failed.park", id=failed, error="the account KA-12 is not known")

    async def settled() -> bool:
        status = await made.ask("node", "node.status")
        answer = await made.ask("node", "queue.census")
        return bool(status["counters"].get("delivered", 0) >= 42 and answer["failed"] == 1 and answer["stuck"] == 8)

    await until(settled)


async def test_readme_shows_the_pictures_and_they_are_of_modest_size() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    for name in PICTURES:
        assert f"docs/pictures/{name}" in text
        assert 10_000 < (ROOT / "docs" / "pictures" / name).stat().st_size < SIZE_MAX
