"""The scene of the console's tests: a hub and an institution in this event loop, each with its console.

The institution 10008 has a document in each state that a person meets: delivered, waiting for an offline partner, held,
parked by its application, refused. Keys, reasons and client names contain an attacker's texts. The hub has runs of the
reconciliation. One browser serves all tests; without a browser, the tests of pages are left out (``conftest``).
"""

import json
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, BrowserContext, Page, ViewportSize, async_playwright

from local_node.node import LocalNode
from platform_node.node import HubNode
from semq.console.runs import OUTCOMES
from tests.service.inprocess import HUB_CONFIG, LOCAL, InProcess, ask, linked
from tests.waiting import until
from tests.web.running import Site, serving

XSS = '<script>window.hit=1</script><img src=x onerror="window.hit=1">"\'&\u202e'
OF_KEY = XSS.rstrip("\u202e")  # an AppKey cannot contain the last character
KEY = f"trade/order//S-{OF_KEY}"
PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DAY, RUN = "2026-11-20", "20261121T021503Z-7f3a9c21-4d0e"
DESKTOP, PHONE = ViewportSize(width=1280, height=900), ViewportSize(width=390, height=844)


@dataclass
class Scene:
    """Two nodes, their web processes, and a browser."""

    hub: HubNode
    node: LocalNode
    clients: dict[str, Any]
    sites: dict[str, Site]
    browser: Browser | None  #: None: this machine has none
    names: dict[str, str] = field(default_factory=dict)  #: LK0s by the state of the document

    async def ask(self, where: str, operation: str, **arguments: Any) -> Any:
        """Ask a node; return the result."""
        answer = await ask(self.clients[where], operation, arguments)
        assert answer["ok"], answer
        return answer["result"]

    @asynccontextmanager
    async def visit(
        self,
        where: str,
        *roles: str,
        language: str = "en",
        dark: bool = False,
        phone: bool = False,
        scripts: bool = True,
    ) -> AsyncIterator[Page]:
        """Return a page of a browser in which a user with these roles is signed in."""
        site = self.sites[where]
        assert self.browser is not None
        secret = await site.web.sessions.open("maria", roles or ("admin", "payload"), "127.0.0.1")
        context: BrowserContext = await self.browser.new_context(
            viewport=PHONE if phone else DESKTOP, color_scheme="dark" if dark else "light", java_script_enabled=scripts,
            locale="zh-CN" if language == "zh" else "en-GB", base_url=site.url,
        )  # fmt: skip
        cookie: Any = {"name": site.web.sessions.cookie, "value": secret, "url": site.url}
        await context.add_cookies([cookie])
        try:
            yield await context.new_page()
        finally:
            await context.close()

    async def send(self, target: str, key: str) -> str:
        """Submit a document at the institution; return its LK0."""
        answer = await self.ask("node", "msg.submit", target=target, app_key=key, body_base64="PG9yZGVyLz4=")
        return str(answer["lk0"])


@asynccontextmanager
async def scene(folder: Path, nodes: InProcess) -> AsyncIterator[Scene]:
    """Start the scene."""
    write_runs(folder / "reports")
    text = HUB_CONFIG + '[reconcile]\nreports = "reports"\n'
    hub = await nodes.hub(text)
    node = await nodes.started(nodes.settings("10008", LOCAL.format(name="10008", hub=hub.port) + "overdue_s = 0.5\n"))
    await linked(node)
    clients = {"hub": await nodes.client(hub), "node": await nodes.client(node)}
    async with AsyncExitStack() as stack:
        sites = {
            "hub": await stack.enter_async_context(serving(hub, streams=64)),
            "node": await stack.enter_async_context(serving(node, streams=64)),
        }
        browser = None
        if PROGRAM:
            playwright = await stack.enter_async_context(async_playwright())
            browser = await playwright.chromium.launch(executable_path=PROGRAM, args=["--no-sandbox", "--disable-gpu"])
            stack.push_async_callback(browser.close)
        made = Scene(hub, node, clients, sites, browser)
        await _fill(made)
        yield made


async def _fill(made: Scene) -> None:
    names = made.names
    names["waiting"] = await made.send("56001", "trade/order//S-1001")
    await made.node.uplink.stop()
    names["held"] = await made.send("56001", KEY)
    await made.ask("node", "msg.hold", id=names["held"], why=f"look {XSS}")
    made.node.uplink.start()
    await linked(made.node)
    for number in range(60):
        await made.send("56001", f"trade/invoice//N-{number}")
    names["failed"] = await made.send("10008", "trade/statement//F-1")
    names["failed too"] = await made.send("10008", f"trade/statement//F-{OF_KEY}")
    names["received"] = await made.send("10008", "trade/notice//R-1")

    async def arrived() -> bool:
        answer = await made.ask("node", "msg.search", side="inbound")
        return len(answer["rows"]) >= 3

    await until(arrived)
    for name in ("failed", "failed too"):
        await made.ask("node", "failed.park", id=names[name], error=f"cannot read it: {XSS}")

    async def stored() -> bool:
        return bool((await made.ask("node", "msg.show", id=names["waiting"]))["ss_status"] == "SS_ACK")

    await until(stored)

    async def counted() -> bool:
        answer = await made.ask("node", "queue.census")
        return bool(answer["failed"] == 2 and answer["stuck"] > 2)

    await until(counted)


def write_runs(reports: Path) -> None:
    """Write two dates with a run each, in the form of spark_reconcile."""
    headings = (
        "Verdict",
        "Finding",
        "Pair",
        "Message (LK0)",
        "Accepted",
        "At the sender",
        "At the hub",
        "At the receiver",
        "What to do",
        "Command",
    )
    lk0 = "1.10008.1.1.tb_0031.1099511627777"
    row = (
        "NOT_DELIVERED",
        "lost",
        "1.10008>1.56001",
        f"'{lk0}",
        "",
        "sent",
        XSS,
        "has no line",
        "Inquire",
        "semq msg inquire",
    )
    for day, code, exceptions in (("2026-11-19", 0, 0), (DAY, 3, 2)):
        place = reports / f"business_date={day}" / f"run={RUN}"
        place.mkdir(parents=True)
        (place.parent / "CURRENT").write_text(f"{RUN}\n")
        verdicts = {"MATCHED": 40, **({"NOT_DELIVERED": exceptions} if exceptions else {})}
        pair = {"sender": "1.10008", "receiver": "1.56001", "messages": 42, "exceptions": exceptions, "bytes": 4200}
        breaches = [{"verdict": "NOT_DELIVERED", "limit": 0, "found": exceptions}] if exceptions else []
        result = {
            "messages": 40 + exceptions,
            "verdicts": verdicts,
            "pairs": [pair],
            "breaches": breaches,
            "sources": [],
        }
        (place / "summary.json").write_text(json.dumps(result))
        (place / "_RESULT.json").write_text(json.dumps({"outcome": OUTCOMES[code], "exit_code": code}))
        lines = [headings] + [row] * exceptions
        quoted = [",".join('"' + cell.replace('"', '""') + '"' for cell in line) for line in lines]
        (place / "exceptions.csv").write_text("\ufeff" + "\n".join(quoted) + "\n", encoding="utf-8")
        (place / "report.html").write_text("<!doctype html><title>report</title><p>report</p>")
