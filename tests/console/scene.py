"""The scene of the console's tests: a hub and the institution 10008 in this event loop, each with its web process.

The institution has documents that wait for an offline partner, are held back, have failed, or were received. Some of
their keys and reasons contain the text of an attacker. The hub has runs of the reconciliation.
"""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from local_node.node import LocalNode
from platform_node.node import HubNode
from semq.console.runs import OUTCOME_OF_EXIT_STATUS
from spark_reconcile.report.work import gap_facts
from spark_reconcile.sources.gaps import Gap
from tests.console import browsers
from tests.service.inprocess import HUB_CONFIG, LOCAL_CONFIG, InProcess, ask, linked
from tests.waiting import until
from tests.web.running import Site, serving

# Every worker imports this file; only one starts a browser.
if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Page, ViewportSize

XSS = '<script>window.hit=1</script><img src=x onerror="window.hit=1">"\'&\u202e'
XSS_IN_KEY = XSS.rstrip("\u202e")  # the last character is not allowed in an AppKey
KEY = f"trade/order//S-{XSS_IN_KEY}"
DAY, RUN = "2026-11-20", "20261121T021503Z-7f3a9c21-4d0e"
WORK = {
    "role": "sender", "nodes": ["1.10008"], "documents": 2, "verdicts": [["NOT_DELIVERED", "not delivered", 2]],
    "text": "Inquire; the party that holds it resends.", "command": "", "contacts": ["+86 1"],
}  # fmt: skip
DESKTOP: "ViewportSize" = {"width": 1280, "height": 900}
PHONE: "ViewportSize" = {"width": 390, "height": 844}


@dataclass
class Scene:
    """Two nodes, their web processes, and a browser."""

    hub: HubNode
    node: LocalNode
    nodes: InProcess
    clients: dict[str, Any]
    sites: dict[str, Site]
    browser: "Browser | None"  #: None: this machine has no browser
    lk0s: dict[str, str] = field(default_factory=dict)  #: state of a document | its LK0

    async def ask(self, where: str, operation: str, **arguments: Any) -> Any:
        """Run an operation of a node (``hub`` or ``node``); return the result."""
        if self.clients[where].error is not None:  # other tests ran for so long that the connection counted as silent
            self.clients[where] = await self.nodes.client(getattr(self, where))
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
    ) -> AsyncIterator["Page"]:
        """Yield a page of a browser in which a user with these roles is signed in."""
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
async def running_scene(folder: Path, nodes: InProcess) -> AsyncIterator[Scene]:
    """Start nodes, web processes and browser; submit the documents."""
    write_runs(folder / "reports")
    text = HUB_CONFIG + '[reconcile]\nreports = "reports"\n'
    hub = await nodes.hub(text)
    node = await nodes.start_node(
        nodes.settings("10008", LOCAL_CONFIG.format(name="10008", hub=hub.port) + "overdue_s = 0.5\n")
    )
    await linked(node)
    clients = {"hub": await nodes.client(hub), "node": await nodes.client(node)}
    async with AsyncExitStack() as stack:
        sites = {
            "hub": await stack.enter_async_context(serving(hub, streams=64)),
            "node": await stack.enter_async_context(serving(node, streams=64)),
        }
        browser = None
        if browsers.PROGRAM:
            from playwright.async_api import async_playwright

            playwright = await stack.enter_async_context(async_playwright())
            browser = await playwright.chromium.launch(
                executable_path=browsers.PROGRAM, args=["--no-sandbox", "--disable-gpu"]
            )
            stack.push_async_callback(browser.close)
        scene = Scene(hub, node, nodes, clients, sites, browser)
        await _submit_documents(scene)
        yield scene


async def _submit_documents(scene: Scene) -> None:
    lk0s = scene.lk0s
    lk0s["waiting"] = await scene.send("56001", "trade/order//S-1001")
    await scene.node.parts.hub.stop()
    lk0s["held"] = await scene.send("56001", KEY)
    await scene.ask("node", "msg.hold", id=lk0s["held"], why=f"look {XSS}")
    scene.node.parts.hub.start()
    await linked(scene.node)
    for number in range(60):
        await scene.send("56001", f"trade/invoice//N-{number}")
    lk0s["failed"] = await scene.send("10008", "trade/statement//F-1")
    lk0s["failed too"] = await scene.send("10008", f"trade/statement//F-{XSS_IN_KEY}")
    lk0s["received"] = await scene.send("10008", "trade/notice//R-1")

    async def have_arrived() -> bool:
        answer = await scene.ask("node", "msg.list", side="inbound")
        return len(answer["rows"]) >= 3

    await until(have_arrived)
    for name in ("failed", "failed too"):
        await scene.ask("node", "failed.park", id=lk0s[name], error=f"cannot read it: {XSS}")

    async def is_stored() -> bool:
        return bool((await scene.ask("node", "msg.show", id=lk0s["waiting"]))["ss_status"] == "SS_ACK")

    await until(is_stored)

    async def are_counted() -> bool:
        answer = await scene.ask("node", "queue.census")
        return bool(answer["failed"] == 2 and answer["stuck"] > 2)

    await until(are_counted)


def write_runs(reports: Path) -> None:
    """Write two dates with one run each, in the form of ``spark_reconcile``."""
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
        run_folder = reports / f"business_date={day}" / f"run={RUN}"
        run_folder.mkdir(parents=True)
        (run_folder.parent / "CURRENT").write_text(f"{RUN}\n")
        verdicts = {"MATCHED": 40, **({"NOT_DELIVERED": exceptions} if exceptions else {})}
        pair = {"sender": "1.10008", "receiver": "1.56001", "messages": 42, "exceptions": exceptions, "bytes": 4200}
        breaches = (
            [{"pair": "", "verdict": "NOT_DELIVERED", "what": "max_count", "found": exceptions, "accepted": 0}]
            if exceptions
            else []
        )
        result = {
            "messages": 40 + exceptions,
            "verdicts": verdicts,
            "pairs": [pair],
            "breaches": breaches,
            "sources": [],
            "carried": {"verdicts": {"PARKED": 3}},
            "need_work": {"date": exceptions, "earlier": 3},
            "work": [WORK] if exceptions else [],
            "absent": [gap_facts(Gap("1.56001.1.1", date(2026, 11, 19), 7), date(2026, 11, 20))],
        }
        (run_folder / "summary.json").write_text(json.dumps(result))
        (run_folder / "_RESULT.json").write_text(
            json.dumps({"outcome": OUTCOME_OF_EXIT_STATUS[code], "exit_code": code})
        )
        lines = [headings] + [row] * exceptions
        quoted = [",".join('"' + cell.replace('"', '""') + '"' for cell in line) for line in lines]
        (run_folder / "exceptions.csv").write_text("\ufeff" + "\n".join(quoted) + "\n", encoding="utf-8")
        (run_folder / "partners").mkdir()
        (run_folder / "partners" / "1.56001.html").write_text("<!doctype html><title>56001</title><p>for 56001</p>")
        (run_folder / "report.html").write_text("<!doctype html><title>report</title><p>report</p>")
