"""The whole site: it builds without a warning, needs no network, and fits its screens."""

import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.console.browsers import PROGRAM
from tests.house.sources import ROOT

if TYPE_CHECKING:
    from playwright.async_api import Page

PAGES = ("index", "tutorial", "operate/symptoms", "reference/configuration", "reference/commands", "protocol/index")
FETCHED = re.compile(r"""<(?:script|img|link|iframe)[^>]+(?:src|href)=["']?(?:https?:)?/(?!/example)[^>]+>""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-P", "-m", "documentation", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_no_page_fetches_anything_from_a_host(site: Path) -> None:
    fetched = {
        f"{page.relative_to(site)}: {tag}"
        for page in site.rglob("*.html")
        for tag in FETCHED.findall(page.read_text("utf-8"))
    }
    assert fetched == set()


def test_every_page_has_the_programs_that_it_includes(site: Path) -> None:
    texts = {page.name: re.sub(r"<[^>]+>", "", page.read_text("utf-8")) for page in site.rglob("*.html")}
    assert [name for name, text in texts.items() if "--8" in text] == []
    assert "channel.confirm_delivery()" in texts["clients.html"]


def test_the_frame_of_a_page_has_the_language_of_its_text(site: Path) -> None:
    for name, words in (("tutorial", ('lang="en"', "Table of contents")), ("zh/tutorial", ('lang="zh"', "目录"))):
        text = (site / f"{name}.html").read_text("utf-8")
        assert [word for word in words if word not in text] == []


def faults_of(page: "Page") -> list[str]:
    """Return a list to which failed requests and errors of scripts are added."""
    faults: list[str] = []
    page.on("requestfailed", lambda request: faults.append(request.url))
    page.on("pageerror", lambda error: faults.append(str(error)))
    return faults


async def test_pages_fit_their_screens(site: Path) -> None:
    async for page in pages_of():
        faults = faults_of(page)
        width = page.viewport_size["width"] if page.viewport_size else 0
        for name in PAGES:
            await page.goto((site / f"{name}.html").as_uri())
            assert await page.evaluate("document.documentElement.scrollWidth") == width, name
        assert faults == []


async def test_the_first_search_of_a_page_finds_words_that_came_without_keys(site: Path) -> None:
    """Pasted, dictated or composed; from the disk, in English and Chinese."""
    async for page in pages_of():
        faults = faults_of(page)
        for name, word in (("index", "reconnect_s_min"), ("zh/tutorial", "备份")):
            await page.goto((site / f"{name}.html").as_uri())
            await page.locator(".md-header__button[for=__search]:visible, .md-search__input:visible").first.click()
            await page.locator(".md-search__input").fill(word)
            result = page.locator(".md-search-result__item").first
            await result.wait_for()
            assert word in await result.inner_text()
        assert faults == []


async def pages_of() -> AsyncIterator["Page"]:
    """Yield a page of a wide screen and one of a telephone, dark."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=PROGRAM)
        yield await browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="light")
        yield await browser.new_page(viewport={"width": 390, "height": 900}, color_scheme="dark")
        await browser.close()
