"""Pages in a browser."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.console.scene import DAY, RUN, Scene
from tests.waiting import until

if TYPE_CHECKING:
    from playwright.async_api import ConsoleMessage, Page

pytestmark = pytest.mark.asyncio(loop_scope="session")

# Most pages that both kinds of node have are visited at the local node only.
PAGES = {
    "node": (
        "/", "/figures", "/figures?period=hour&partner=56001", "/messages",
        "/messages?ended=true&from=yesterday&to=today", "/messages?state=SS_ACK&type=invoice", "/stuck", "/partners",
        "/broker",
        "/broker?part=consumers", "/broker?part=connections", "/jobs", "/certificates", "/reconciliation", "/audit",
        "/settings?show=all",
        "/health", "/stuck?cause=HELD&partner=56001", "/failed", "/messages?find=nothing-has-this-name",
    ),
    "hub": (
        "/", "/figures?period=week", "/held", "/held?target=56001", "/definitions", "/partners",
        "/certificates/revoke?which=10008", "/reconciliation",
        f"/reconciliation/{DAY}/{RUN}",
    ),
}  # fmt: skip
# Words in tables that are broken; names and codes, which may be long, break anywhere.
BROKEN_WORDS = """() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const range = document.createRange(), found = [];
  while (walker.nextNode()) {
    const node = walker.currentNode, element = node.parentElement;
    if (!element.closest("td, th") || element.closest("code, pre, a, .mono, .code")) continue;
    for (const word of node.data.matchAll(/[A-Za-z0-9]{2,20}/g)) {
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      if (range.getClientRects().length > 1) found.push(word[0]);
    }
  }
  return found;
}"""
MEASURE = "() => [document.documentElement.scrollWidth, document.documentElement.clientWidth, window.hit]"
# Axe takes seconds for a long table. Of rows that differ only in texts and values, two remain.
SHORTEN_TABLES = """() => {
  const formOf = element =>
    [element.tagName, element.className, element.getAttributeNames(), !element.textContent.trim()].join();
  for (const table of document.querySelectorAll("tbody")) {
    const counts = {};
    for (const row of [...table.rows]) {
      const form = [row, ...row.querySelectorAll("*")].map(formOf).join(" ");
      counts[form] = (counts[form] ?? 0) + 1;
      if (counts[form] > 2) row.remove();
    }
  }
}"""
AXE = "() => axe.run({resultTypes: ['violations']}).then(found => found.violations)"
ADD_SELECT = "() => document.querySelector('main').append(document.createElement('select'))"


def pages(scene: Scene) -> Iterator[tuple[str, str]]:
    """Yield node and address of every page."""
    for where, paths in PAGES.items():
        yield from ((where, path) for path in paths)
    for name in ("waiting", "held", "failed too", "received"):
        yield "node", f"/messages/{scene.lk0s[name]}"
    yield "hub", f"/messages/{scene.lk0s['waiting']}"


def reported_errors(page: "Page") -> list[str]:
    """Return a list to which errors of the browser are added, including blocked content."""
    errors: list[str] = []

    def add(message: "ConsoleMessage") -> None:
        if message.type == "error":
            errors.append(message.text)

    page.on("console", add)
    page.on("pageerror", lambda error: errors.append(str(error)))
    return errors


@pytest.mark.parametrize(("dark", "phone", "language"), [(False, False, "en"), (True, True, "zh")])
async def test_every_page_fits_its_screen_runs_no_foreign_script_and_has_no_violation_of_axe(
    scene: Scene, dark: bool, phone: bool, language: str, pytestconfig: pytest.Config
) -> None:
    """Light at 1280 pixels in English, dark at 390 pixels in Chinese. Axe checks half of the pages in each case, with
    short tables; with --deep, all pages and rows.
    """
    from axe_playwright_python.base import AXE_SCRIPT  # type: ignore[import-untyped]

    is_deep = pytestconfig.getoption("deep")
    numbered = list(enumerate(pages(scene)))
    faults: list[Any] = []
    for where in ("node", "hub"):
        async with scene.visit(where, dark=dark, phone=phone, language=language) as page:
            errors = reported_errors(page)
            for is_checked in (False, True):
                if is_checked:
                    await page.add_init_script(AXE_SCRIPT)  # of all pages from here on
                for number, (node, path) in numbered:
                    if node != where or (is_deep or number % 2 == dark) != is_checked:
                        continue
                    answer = await page.goto(path)
                    assert answer is not None
                    assert answer.status == 200, path
                    width, screen, hit = await page.evaluate(MEASURE)
                    broken = () if phone else await page.evaluate(BROKEN_WORDS)
                    if is_checked and not is_deep:
                        await page.evaluate(SHORTEN_TABLES)
                    found = await page.evaluate(AXE) if is_checked else ()
                    violations = [(row["id"], row["nodes"][0]["html"][:200]) for row in found]
                    if width > screen or violations or hit or errors or broken:
                        faults.append((where, path, width, screen, violations, hit, list(errors), broken))
                        errors.clear()
            await page.evaluate(ADD_SELECT)
            assert [row["id"] for row in await page.evaluate(AXE)] == ["select-name"]  # axe works
    assert faults == []


async def test_pages_are_printed_with_their_rows_as_tables_and_without_forms(scene: Scene) -> None:
    async with scene.visit("node", "operator") as page:
        await page.emulate_media(media="print")
        await page.set_viewport_size({"width": 710, "height": 1000})  # A4 without margins
        for path in ("/failed", "/partners"):
            await page.goto(path)
            row = page.locator("#rows tbody tr").first
            assert await row.is_visible()
            assert await row.evaluate("row => getComputedStyle(row).display") == "table-row"
            assert not await page.locator("form.filter, button, #keys, nav").filter(visible=True).count()


WHOLE_WORDS = """() => [...document.querySelectorAll("table.words td:not(.wide) span")].filter(element => {
  const range = document.createRange();
  range.selectNodeContents(element);
  const isWord = !element.textContent.trim().includes(" ") && !element.querySelector("span");
  return isWord && range.getClientRects().length > 1;
}).map(element => element.textContent)"""


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_the_columns_of_the_audit_log_keep_words_whole(scene: Scene, language: str) -> None:
    async with scene.visit("node", language=language) as page:
        await page.goto("/audit")
        assert await page.locator("table.words tbody tr").count() > 50
        assert await page.evaluate(WHOLE_WORDS) == []


async def test_an_operator_finds_a_failed_document_by_keyboard_and_requeues_it(scene: Scene) -> None:
    async with scene.visit("node", "operator") as page:
        await page.goto("/")
        await page.keyboard.press("g")
        await page.keyboard.press("f")
        await page.wait_for_url("**/failed")
        box = page.locator('input[name="ids"]').last  # the document without hostile texts
        await box.focus()
        await page.keyboard.press("Space")
        await page.get_by_role("button", name="Requeue the selected").focus()
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/acts/*")
        await page.get_by_label("Reason").focus()
        await page.keyboard.type("mended")
        await page.keyboard.press("Enter")
        await page.get_by_text("The act is done.").wait_for()
        assert "1 / 1" in await page.inner_text("#progress")

    async def is_back() -> bool:
        return bool((await scene.ask("node", "msg.show", id=scene.lk0s["failed"]))["app_status"] == "NEW")

    await until(is_back)
    lines = (await scene.ask("node", "msg.trace", id=scene.lk0s["failed"]))["events"]
    assert any("mended" in line["detail"] for line in lines)


async def test_without_scripts_a_message_is_found_released_and_cancelled(scene: Scene) -> None:
    async with scene.visit("node", "operator", scripts=False) as page:
        await page.goto("/messages")
        await page.get_by_label("Name, locator or key").fill("S-1001")
        await page.get_by_role("button", name="Search").click()
        assert await page.inner_text("h1") == "order S-1001"
        await page.get_by_role("link", name="Also show the lines of the hub and the partner").click()
        line = await page.inner_text("#line")
        assert "2.hub" in line
        assert "Without the lines of 56001" in line
        for act in ("Release", "Cancel the document"):
            await page.goto(f"/messages/{scene.lk0s['held']}")
            await page.get_by_role("button", name=act, exact=True).click()
            await page.get_by_label("Reason").fill("not before noon")
            await page.get_by_role("button", name=act).click()
            await page.get_by_text("The act is done.").wait_for()  # the page reloads itself


async def test_a_page_refreshes_itself_and_keeps_the_text_that_the_user_types(scene: Scene) -> None:
    async with scene.visit("node", "viewer") as page:
        await page.goto("/messages")
        await page.locator("#live-state").get_by_text("live").wait_for()
        await page.get_by_label("Key begins with").fill("half typed")
        await scene.ask("node", "msg.submit", target="56001", app_key="trade/order//LIVE-1")
        await page.get_by_role("link", name="order LIVE-1").wait_for()
        assert await page.get_by_label("Key begins with").input_value() == "half typed"


async def test_lines_of_other_nodes_are_loaded_automatically_and_stay_after_a_refresh(
    scene: Scene,
) -> None:
    async with scene.visit("node", "viewer") as page:
        await page.goto(f"/messages/{scene.lk0s['waiting']}")
        await page.locator("#line").get_by_text("2.hub").first.wait_for()
        await page.locator("#live-state").get_by_text("live").wait_for()
        before = await page.inner_text("#as-of")
        await scene.ask("node", "msg.submit", target="56001", app_key="trade/order//LIVE-2")
        await page.wait_for_function("before => document.getElementById('as-of').innerText != before", arg=before)
        assert await page.locator("#line").get_by_text("2.hub").count() > 0


async def test_the_start_page_has_charts_of_three_periods_with_texts_also_without_scripts(scene: Scene) -> None:
    async def are_counted() -> bool:
        return bool((await scene.ask("node", "figures.traffic", partner="56001"))["documents"].get("accepted", 0) >= 62)

    await until(are_counted)
    async with scene.visit("node", "viewer", scripts=False) as page:
        await page.goto("/")
        charts = page.locator("#over-time svg[role=img]")
        assert await charts.count() == 15
        text = await charts.first.get_attribute("aria-label")
        assert re.fullmatch(r"Sent: accepted \d+, delivered \d+, failed 0", str(text))
        await page.get_by_role("link", name="Last hour").click()
        await page.get_by_label("Partner").fill("56001")
        await page.get_by_role("button", name="Show").click()
        assert await page.locator("#charts svg").count() == 5
        assert await page.locator("#points tbody tr").count() >= 2


async def test_the_table_of_figures_scrolls_beside_its_times_on_a_phone_also_after_a_refresh(scene: Scene) -> None:
    async with scene.visit("node", "viewer", phone=True) as page:
        await page.goto("/figures?period=hour")
        region, time = page.locator("#points .scroll"), page.locator("#points tbody td.when").last
        before = await time.bounding_box()
        await region.evaluate("region => { region.scrollLeft = 200 }")
        assert await time.bounding_box() == before
        await page.locator("#live-state").get_by_text("live").wait_for()
        shown = await page.inner_text("#points")
        await scene.ask("node", "msg.submit", target="56001", app_key="trade/order//LIVE-3")
        await page.wait_for_function("shown => document.getElementById('points').innerText != shown", arg=shown)
        assert await region.evaluate("region => region.scrollLeft") == 200


SENTENCES = """() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const isForeign = element.closest("code, pre, textarea, script, .mono, p.code, [lang=en]");
    const isSentence = /[a-z]{2,} [a-z]{2,} [a-z]{2,}/i.test(walker.currentNode.data);
    if (isSentence && !isForeign) found.push(walker.currentNode.data);
  }
  return found;
}"""


async def test_chinese_pages_have_no_english_sentence(scene: Scene) -> None:
    """Commands, names and values are code; documents and their errors come from others."""
    found = set()
    for where in ("node", "hub"):
        async with scene.visit(where, language="zh") as page:
            own = ("/users", "/tokens", "/account", "/no-such-page")
            for path in [*(path for node, path in pages(scene) if node == where), *own]:
                await page.goto(path)
                found |= {(path, text.strip()) for text in await page.evaluate(SENTENCES)}
    assert {row for row in found if "maria" not in row[1]} == set()  # texts of the scene's operator


async def test_the_chinese_start_page_has_no_english_sentence(scene: Scene) -> None:
    """Commands, names and texts of nodes remain in English."""
    async with scene.visit("node", language="zh") as page:
        await page.goto("/")
        assert await page.get_attribute("html", "lang") == "zh-CN"
        assert "需要关注" in await page.inner_text("main")
        await page.get_by_role("button", name="English").click()
        assert "What needs attention" in await page.inner_text("main")
        await page.get_by_role("button", name="中文").click()
        text = await page.inner_text("main")
    assert not re.search(r"[a-z]{3,} [a-z]{2,} [a-z]{2,}", text.replace("semq msg", ""))
