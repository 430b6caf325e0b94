"""The pictures of docs/operate/console.md: screenshots of nodes with a few documents.

`SEMQ_PICTURES=docs/pictures ./run test tests/console/test_pictures.py` writes them into the repository.
"""

import os
from pathlib import Path

import pytest

from tests.console.scene import Scene
from tests.service.inprocess import HUB_CONFIG, LOCAL_CONFIG, InProcess, linked
from tests.waiting import until
from tests.web.running import serving

ROOT = Path(__file__).parents[2]
PICTURES = ("overview.png", "message.png", "phone.png")
SIZE_MAX = 250_000

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_pictures_are_made_of_running_nodes(scene: Scene, nodes: InProcess, tmp_path: Path) -> None:
    folder = ROOT / os.environ["SEMQ_PICTURES"] if "SEMQ_PICTURES" in os.environ else tmp_path
    nodes = InProcess(nodes.stack, tmp_path, nodes.new_database)  # with files of their own
    hub = await nodes.hub(HUB_CONFIG.replace('["56001", "10008"]', '["56001", "88001", "10008"]'))
    text = LOCAL_CONFIG.replace("inquiry_s = 0.5", "inquiry_s = 15") + "overdue_s = 0.5\n"
    a = await nodes.start_node(nodes.settings("10008", text.format(name="10008", hub=hub.port)))
    b = await nodes.local("56001", hub.port)
    await linked(a, b)
    async with serving(a) as site:
        trading = Scene(hub, a, nodes, {"node": await nodes.client(a)}, {"node": site}, scene.browser)
        await _trade(trading)
        async with trading.visit("node", "operator", "payload") as page:
            await page.goto("/")
            await page.screenshot(path=folder / "overview.png")
            await page.goto(f"/messages/{trading.lk0s['order']}")
            await page.locator("#line").get_by_text("2.hub").first.wait_for()
            await page.screenshot(path=folder / "message.png")
        async with trading.visit("node", "operator", language="zh", dark=True, phone=True) as page:
            await page.goto("/")
            await page.screenshot(path=folder / "phone.png")
    for name in PICTURES:
        assert 10_000 < (folder / name).stat().st_size < SIZE_MAX, name


async def _trade(scene: Scene) -> None:
    for number in range(40):
        await scene.send("56001", f"trade/order//LW-{2000 + number}")
    scene.lk0s["order"] = await scene.send("56001", "trade/order//LW-2041")
    for number in range(7):
        await scene.send("88001", f"trade/invoice//JN-{number}")
    failed = await scene.send("10008", "trade/statement//KA-12")

    async def has_arrived() -> bool:
        return bool((await scene.ask("node", "msg.list", side="inbound"))["rows"])

    await until(has_arrived)
    await scene.ask("node", "failed.park", id=failed, error="the account KA-12 is not known")

    async def are_counted() -> bool:
        status = await scene.ask("node", "node.status")
        answer = await scene.ask("node", "queue.census")
        return bool(status["counters"].get("delivered", 0) >= 42 and answer["failed"] == 1 and answer["stuck"] == 8)

    await until(are_counted)


async def test_the_guide_shows_the_pictures_and_they_are_of_modest_size() -> None:
    text = (ROOT / "docs" / "operate" / "console.md").read_text("utf-8")
    for name in PICTURES:
        assert f"../pictures/{name}" in text
        assert 10_000 < (ROOT / "docs" / "pictures" / name).stat().st_size < SIZE_MAX
