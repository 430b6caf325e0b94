"""Pages and forms, without a browser."""

import re
from typing import Any

import psycopg
import pytest

from semq.console import runs
from semq.console.acts import ACTS
from semq.store.audit import AuditFilter, lines
from semq.web.pages.visit import Visit
from tests.console.scene import DAY, RUN, XSS, Scene
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

FORMS = {
    "/acts/prepare": {"ids": "x", "act": "cancel", "back": "/"},
    "/messages/payload": {"id": "x"},
    "/failed/prepare": {"act": "remove-all"},
    "/jobs/act": {"name": "housekeeping", "act": "run"},
    "/certificates/revoke": {"serials": "1f", "why": "x"},
    "/certificates/token": {"node": "56001"},
    "/definitions/import": {"document": "", "why": "x", "expect": "0"},
    "/acts/0/start": {"why": "x"},
}


@pytest.mark.parametrize("path", FORMS)
async def test_a_form_from_another_site_or_without_the_token_of_the_session_is_refused(scene: Scene, path: str) -> None:
    browser = await scene.sites["node"].signed_in()
    before = await scene.sites["node"].audit()
    assert (await browser.post(path, data=FORMS[path])).status_code in (400, 403)
    forged = await browser.post(
        path, data={"csrf": browser.csrf} | FORMS[path], headers={"origin": "https://elsewhere.example"}
    )
    assert forged.status_code in (400, 403)
    assert await scene.sites["node"].audit() == before
    stranger = await scene.sites["node"].browser()
    assert (await stranger.post(path, data=FORMS[path])).status_code in (302, 303, 400, 401, 403)


async def test_a_viewer_sees_no_acts_and_no_payload_and_may_do_nothing(scene: Scene) -> None:
    browser = await scene.sites["node"].signed_in("viewer")
    page = (await browser.get(f"/messages/{scene.lk0s['received']}")).text
    assert "/acts/prepare" not in page
    assert "/messages/payload" not in page
    assert (await browser.get("/audit")).status_code == 403
    assert "requeue" not in (await browser.get("/failed")).text
    for path in FORMS:
        if path != "/acts/0/start":
            assert (await browser.post_form(path, **FORMS[path])).status_code == 403, path


async def test_the_page_of_failed_documents_says_that_the_list_is_filtered(scene: Scene) -> None:
    browser = await scene.sites["node"].signed_in("viewer")
    all_, some, none = [
        (await browser.get("/failed", params=filter_)).text for filter_ in ({}, {"type": "statement"}, {"key": "no"})
    ]
    assert ("have failed" in all_ or "has failed" in all_, "The list shows those" in all_) == (True, False)
    assert "The list shows those that match." in some
    assert "No failed document matches." in none


async def test_the_overview_does_not_say_that_all_is_well_before_the_queues_are_counted(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    calm_answers: dict[str, Any] = {
        "node.health": {"checks": [{"check": "store", "verdict": "ok"}]},
        "queue.census": {"as_of": 0, "pairs": [], "inboxes": [], "submitted": {}, "failed": 0, "stuck": 0},
        "stuck.causes": {"rows": []},
        "job.list": [],
    }
    ask = Visit.ask

    async def calm_ask(visit: Visit, operation: str, **arguments: Any) -> Any:
        return calm_answers[operation] if operation in calm_answers else await ask(visit, operation, **arguments)

    monkeypatch.setattr(Visit, "ask", calm_ask)
    browser = await scene.sites["node"].signed_in("viewer")
    page = (await browser.get("/")).text
    assert "Nothing needs attention." not in page
    assert "The queues are being counted." in page
    calm_answers["queue.census"]["as_of"] = 1_790_000_000_000
    assert "Nothing needs attention." in (await browser.get("/")).text
    page = (await (await scene.sites["hub"].signed_in("viewer")).get("/")).text
    assert f"Reconciliation of {DAY}</a>: threshold exceeded" in page
    assert "Nothing needs attention." not in page


async def test_a_date_whose_run_was_refused_is_listed(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "dates", lambda folder: ["2026-11-21", DAY])
    page = (await (await scene.sites["hub"].signed_in("viewer")).get("/reconciliation")).text
    row = page[page.index("2026-11-21") : page.index(f"/reconciliation/{DAY}/")]
    assert "failed" in row


async def test_a_payload_needs_its_role_and_each_access_is_in_the_audit_log(scene: Scene) -> None:
    site, lk0 = scene.sites["node"], scene.lk0s["received"]
    admin = await site.signed_in("admin")
    assert (await admin.post_form("/messages/payload", id=lk0, how="look")).status_code == 403
    reader = await site.signed_in("viewer", "payload")
    lines_before = len(await site.audit("msg.body"))
    answer = await reader.post_form("/messages/payload", id=lk0, how="look")
    assert "&lt;order/&gt;" in answer.text
    assert answer.headers["cache-control"] == "no-store"
    saved = await reader.post_form("/messages/payload", id=lk0, how="save")
    assert saved.content == b"<order/>"
    assert saved.headers["content-disposition"].startswith("attachment")
    lines = await site.audit("msg.body")
    assert [line[2] for line in lines[lines_before:]].count("done") == 2
    assert any("msg.body" in line for line in (await admin.get("/audit?payloads=1")).text.splitlines())


async def test_hostile_texts_are_escaped_on_every_page_that_shows_them(scene: Scene) -> None:
    browser = await scene.sites["node"].signed_in()
    failed = scene.lk0s["failed too"]
    for path in ("/messages", "/failed", f"/messages/{failed}", "/stuck?cause=PARKED", f"/messages?find={XSS[:20]}"):
        page = (await browser.get(path, follow_redirects=True)).text
        assert "<script>window" not in page, path
        assert "<img" not in page, path
        assert "\u202e" not in page, path
    assert "&lt;script&gt;" in (await browser.get("/messages")).text


async def test_acts_that_are_unknown_or_lack_a_reason_are_refused(scene: Scene) -> None:
    browser = await scene.sites["node"].signed_in("operator")
    lk0 = scene.lk0s["waiting"]
    unknown = await browser.post_form("/acts/prepare", ids=[lk0], act="explode", back=f"/messages/{lk0}")
    assert (unknown.headers["location"], "no%20such%20act" in unknown.headers["set-cookie"]) == (
        f"/messages/{lk0}", True,
    )  # fmt: skip
    nothing = await browser.post_form("/acts/prepare", act="send", back="//elsewhere.example")
    assert (nothing.headers["location"], "Nothing" in nothing.headers["set-cookie"]) == ("/", True)
    prepared = (await browser.post_form("/acts/prepare", ids=[lk0], act="send", back="/")).headers["location"]
    started = await browser.post_form(f"{prepared}/start", why="")
    assert (started.headers["location"], "give%20a%20reason" in started.headers["set-cookie"]) == (prepared, True)


@pytest.mark.parametrize("act", ["inquire", "send"])
async def test_an_act_on_one_message_is_done_and_named_in_the_audit_log(scene: Scene, act: str) -> None:
    site = scene.sites["node"]
    browser = await site.signed_in("operator")
    prepared = (await browser.post_form("/acts/prepare", ids=[scene.lk0s["waiting"]], act=act, back="/")).headers
    await browser.post_form(f"{prepared['location']}/start", why="the partner asked")

    async def is_done() -> bool:
        return "1 / 1" in (await browser.get(prepared["location"])).text

    await until(is_done)
    wanted = AuditFilter(act=ACTS[act].operation, limit=2)
    assert "order S-1001" in str((await site.web.database.read(lines, wanted))[-1]["arguments"]["documents"])


async def test_the_page_of_a_cause_offers_the_acts_that_its_next_step_names(scene: Scene) -> None:
    browser = await scene.sites["node"].signed_in("operator")
    page = (await browser.get("/stuck?cause=TARGET_OFFLINE&partner=56001")).text
    assert re.findall(r'name="act" value="(\w+)"', page) == ["cancel"]
    page = (await browser.get("/stuck?cause=PARKED")).text
    assert re.findall(r'name="act" value="(\w+)"', page) == ["requeue", "remove"]
    assert f'value="{scene.lk0s["failed too"]}"' in page
    page = (await browser.get(f"/messages/{scene.lk0s['failed too']}")).text
    assert {"requeue", "remove"} <= set(re.findall(r'name="act" value="(\w+)"', page))
    viewer = await scene.sites["node"].signed_in("viewer")
    assert 'name="act"' not in (await viewer.get("/stuck?cause=PARKED")).text


async def test_reading_pages_changes_no_rows(scene: Scene) -> None:
    browser = await scene.sites["node"].signed_in()
    paths = [
        "/",
        "/messages",
        "/stuck",
        "/failed",
        "/partners",
        "/broker",
        "/jobs",
        "/certificates",
        "/health",
        "/audit",
    ]
    paths += [f"/messages/{lk0}" for lk0 in scene.lk0s.values()]
    acts = await scene.sites["node"].audit()

    def state() -> object:
        with psycopg.connect(scene.node.store.url) as connection:
            received = connection.execute("SELECT bref, app_status, deliveries FROM tb_0030 ORDER BY 1").fetchall()
            operator_lines = connection.execute("SELECT count(*) FROM semq_ledger WHERE event = 29").fetchone()
            return received, operator_lines

    before = state()
    for path in paths:
        assert (await browser.get(path)).status_code == 200, path
    assert state() == before
    assert await scene.sites["node"].audit() == acts


async def test_reports_of_the_reconciliation_run_in_a_sandbox_and_other_files_are_not_found(scene: Scene) -> None:
    browser = await scene.sites["hub"].signed_in("viewer")
    path_of_run = f"/reconciliation/{DAY}/{RUN}"
    link = f'<a href="{path_of_run}/partners/1.56001.html" download="{DAY}-1.56001.html">56001</a>'
    assert link in (await browser.get(path_of_run)).text
    page = (await browser.get(path_of_run)).text
    for text in (
        "<h2>2 of 42 documents need work, and 3 of earlier dates</h2>", "Call +86 1.", "No ledger</span> 2026-11-19",
        "semq reconcile extract --business-date 2026-11-19 --config FILE", f"{path_of_run}?verdict=PARKED#exceptions",
    ):  # fmt: skip
        assert text in page
    for_partner = await browser.get(f"{path_of_run}/partners/1.56001.html")
    assert "for 56001" in for_partner.text
    assert "sandbox" in for_partner.headers["content-security-policy"]
    report = await browser.get(f"{path_of_run}/report.html")
    assert "sandbox" in report.headers["content-security-policy"]
    assert (await browser.get(f"{path_of_run}/exceptions.csv")).headers["content-disposition"].startswith("attachment")
    for path in (
        f"{path_of_run}/_RESULT.json",
        f"{path_of_run}/..%2f..%2fhub.toml",
        f"/reconciliation/{DAY}/x",
        f"{path_of_run}/partners/1.99.html",
        f"{path_of_run}/partners/..%2freport.html",
        "/reconciliation/..%2f/x",
    ):
        assert (await browser.get(path)).status_code == 404, path
    page = (await browser.get(f"{path_of_run}?verdict=NOT_DELIVERED&pair=1.10008%3E1.56001")).text
    assert page.count('href="/messages/1.10008.1.1.tb_0031.1099511627777"') == 2


async def test_an_act_on_all_messages_of_a_filter_counts_and_processes_them(scene: Scene) -> None:
    """Also: an act that was stopped before its start does not start."""
    browser = await scene.sites["hub"].signed_in("operator")
    prepared = await browser.post_form("/held/prepare", act="resend-all", type="invoice")
    page = await browser.get(prepared.headers["location"])
    assert re.search(r"Send the copy again</strong>: 60 documents", page.text)
    act = prepared.headers["location"]
    assert "reason" in (await browser.post_form(f"{act}/start", why="")).headers["set-cookie"]
    await browser.post_form(f"{act}/start", why="the partner asked")
    for _ in range(200):
        page = await browser.get(act)
        if "The act is done." in page.text:
            break
    assert "60 / 60" in page.text
    filters = []
    for fields in {"act": "refuse-all"}, {"act": "refuse", "ids": "one", "type": "order"}:
        named = await browser.post_form("/held/prepare", **fields)
        page = await browser.get(named.headers["location"])
        filters += re.findall(r"Refuse the copy</strong>: \d+ documents?( \(.*\))?</p>", page.text)
        await browser.post_form(named.headers["location"] + "/stop")
    assert filters == [" (all)", ""]
    stopped = await browser.post_form("/held/prepare", act="refuse-all", type="order")
    await browser.post_form(stopped.headers["location"] + "/stop")
    assert (await browser.post_form(stopped.headers["location"] + "/start", why="x")).status_code == 303
    assert "The act was stopped" in (await browser.get(stopped.headers["location"])).text


async def test_an_unexpected_error_ends_an_act_on_many_messages_as_failed_and_is_shown(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = scene.sites["hub"]
    browser = await site.signed_in("operator")
    prepared = await browser.post_form("/held/prepare", act="resend-all", type="invoice")
    act = prepared.headers["location"]

    async def broken(*_: object, **__: object) -> object:
        raise RuntimeError("the batch went wrong <b>")

    monkeypatch.setattr(site.web.operations, "ask", broken)
    await browser.post_form(f"{act}/start", why="the partner asked")

    async def has_failed() -> bool:
        return [line[2] for line in await site.audit("bulk.resend")][-2:] == ["asked", "failed"]

    await until(has_failed)
    monkeypatch.undo()
    assert "RuntimeError: the batch went wrong &lt;b&gt;" in (await browser.get(act)).text
    assert "failed</span>" in (await browser.get("/held")).text


async def test_an_act_that_the_end_of_the_web_process_interrupted_is_shown_by_the_next_process(scene: Scene) -> None:
    site = scene.sites["hub"]
    browser = await site.signed_in("operator")
    assert "web process interrupted" not in (await browser.get("/held")).text
    facts = {"messages": 7, "chosen": "", "why": f"look {XSS}"}
    asked = await site.web.audit.note("maria", "session", "127.0.0.1", "bulk.refuse", facts, outcome="asked")
    page = (await browser.get("/held")).text
    assert "the end of the web process interrupted" in page
    assert "refuse the copy: 7 documents" in page
    unknown_act = await browser.get("/acts/0123456789abcdef")
    assert (unknown_act.status_code, unknown_act.headers["location"]) == (303, "/held")
    await site.web.audit.note("maria", "session", "127.0.0.1", "bulk.refuse", {}, asked=asked)
    assert "web process interrupted" not in (await browser.get("/held")).text


async def test_an_import_of_definitions_with_a_version_that_is_no_number_is_refused(scene: Scene) -> None:
    browser = await scene.sites["hub"].signed_in()
    for expect in ("x", "", "-1", "1e3", "9" * 5000, "\u0661"):
        answer = await browser.post_form("/definitions/import", document="", why="x", expect=expect)
        assert (answer.status_code, "SEMQ-1404" in answer.text) == (400, True), expect


async def test_definitions_are_compared_before_they_are_imported(scene: Scene) -> None:
    browser = await scene.sites["hub"].signed_in()
    in_force = (await browser.get("/definitions/export")).text
    proposed = in_force + '\n[[agreements]]\nfrom = ["10008"]\nto = ["56001"]\n'
    page = (await browser.post_form("/definitions/compare", document=proposed)).text
    assert 'class="added"' in page
    assert "only documents with an agreement are allowed" in page
    assert "could no longer send" in page
    assert (await scene.ask("hub", "definitions.export"))["document"] == in_force
    wrong = (await browser.post_form("/definitions/compare", document="nonsense = 1")).text
    assert 'class="say bad"' in wrong
    assert "/definitions/import" not in wrong
    assert (await browser.post_form("/definitions/import", document=proposed, expect="0", why="")).status_code == 303
    assert (await scene.ask("hub", "definitions.export"))["document"] == in_force


@pytest.mark.parametrize(
    "file",
    [b"x = '" + "é".encode("latin-1") + b"'", b"# " + b"x" * (4 << 20)],
    ids=["not UTF-8", "too large"],
)
async def test_an_unreadable_or_too_large_file_of_definitions_is_refused(scene: Scene, file: bytes) -> None:
    browser = await scene.sites["hub"].signed_in()
    files = {"file": ("definitions.toml", file)}
    answer = await browser.post("/definitions/compare", data={"csrf": browser.csrf}, files=files)
    assert (answer.status_code, "SEMQ-1404" in answer.text) == (400, True)


@pytest.mark.parametrize("hours", ["soon", "-1", "0", "nan", "inf"])
async def test_a_token_with_a_wrong_validity_is_refused(scene: Scene, hours: str) -> None:
    browser = await scene.sites["hub"].signed_in()
    answer = await browser.post_form("/certificates/token", node="1.56001", hours=hours)
    assert answer.status_code == 400


async def test_a_job_is_paused_with_a_reason_and_resumed(scene: Scene) -> None:
    browser = await scene.sites["node"].signed_in("admin")
    await browser.post_form("/jobs/act", name="housekeeping", act="pause", why="")
    assert "paused</span>" not in (await browser.get("/jobs")).text
    await browser.post_form("/jobs/act", name="housekeeping", act="pause", why="backup")
    assert "paused</span> backup" in (await browser.get("/jobs")).text
    await browser.post_form("/jobs/act", name="housekeeping", act="resume")
    assert "paused</span>" not in (await browser.get("/jobs")).text


async def test_the_stream_reports_missed_changes_to_a_reconnected_browser(scene: Scene) -> None:
    browser = await scene.sites["node"].signed_in()

    async def lines(last: str) -> list[str]:
        """Return the first lines with an identifier or an event."""
        first_lines: list[str] = []
        async with browser.stream("GET", "/live", headers={"last-event-id": last} if last else {}) as answer:
            async for line in answer.aiter_lines():
                first_lines += [line] if line.startswith(("id:", "event:")) else []
                if first_lines and not line:
                    break
        return first_lines

    (identifier,) = await lines("")
    assert re.fullmatch("id: [0-9a-f]{16}", identifier)
    assert (await lines("0123456789abcdef"))[1] == "event: changed"


@pytest.mark.parametrize("where", ["node", "hub"])
async def test_pages_about_users_and_missing_pages_have_the_navigation(scene: Scene, where: str) -> None:
    browser = await scene.sites[where].signed_in()
    for path in ("/users", "/tokens", "/account", "/no-such-page"):
        page = await browser.get(path, headers={"accept": "text/html"})
        assert page.status_code == (404 if path == "/no-such-page" else 200)
        for link in ("/messages", "/health", "/audit"):
            assert f'<a href="{link}" data-key=' in page.text, (path, link)
        assert 'href="/sign-in"' not in page.text, path
    stranger = await scene.sites[where].browser()
    page = await stranger.get("/no-such-page", headers={"accept": "text/html"})
    assert ('href="/sign-in"' in page.text, 'data-key="m"' in page.text) == (True, False)
