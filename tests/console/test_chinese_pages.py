"""Chinese pages that show errors: each sentence is Chinese, or marked as English."""

import re
from typing import Any

import pytest

from semq.engine.errors import UnknownTarget
from semq.store.postgres.errors import StoreUnavailable
from semq.web.pages.visit import Visit
from tests.console.english import unmarked_sentences
from tests.console.scene import Scene
from tests.console.test_details import checks_of_failing_nodes
from tests.waiting import until
from tests.web.running import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")

CHINESE = {"accept-language": "zh-CN", "accept": "text/html"}


async def chinese_visitor(scene: Scene, where: str, *roles: str) -> Browser:
    browser = await scene.sites[where].signed_in(*roles)
    browser.headers.update(CHINESE)
    return browser


def checked(page: Any, status: int, *texts: str) -> str:
    """Check status, texts and language of a page; return its HTML."""
    assert page.status_code == status, page.text
    assert not (found := unmarked_sentences(page.text)), f"{page.url}: {found}"
    for text in texts:
        assert text in page.text, page.text.partition("<main")[2]
    return str(page.text)


async def test_a_page_of_an_error_has_sentence_remedy_facts_and_closed_exact_text(scene: Scene) -> None:
    browser = await chinese_visitor(scene, "node")
    page = checked(
        await browser.get("/messages/nothing"), 404, "没有此单据，或其已结束并被删除。", "<code>semq msg list</code>"
    )
    assert "英文原文</summary>" in page
    assert "SEMQ-1207 There is no such document" in page
    english = await scene.sites["node"].signed_in()
    page = (await english.get("/messages/nothing")).text
    assert page.count("There is no such document, or it has ended and was deleted.") == 1
    assert "<details" not in page


async def test_no_page_of_a_refusal_has_an_english_sentence(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    node, hub = [await chinese_visitor(scene, where) for where in ("node", "hub")]
    viewer = await chinese_visitor(scene, "node", "viewer")
    checked(await node.get("/nowhere"), 404, "此地址没有内容。")
    checked(await viewer.get("/audit"), 403, "此用户或令牌无权执行此操作。")
    checked(await node.post("/jobs/act", data={"csrf": "forged"}), 403, "此表单不属于本次会话。")
    checked(await node.get("/messages?from=never"), 400, "日期写作")
    checked(await node.post_form("/jobs/act", name="no", act="run"), 400, "节点没有此名称的任务")
    checked(await node.post_form("/users/add", name="zoe", roles="viewer", password="short"), 400, "长度至少为 12")
    checked(await node.post_form("/users/add", name="zoe", password="x"), 400, "用户至少有一个角色")
    checked(await node.post_form("/tokens/create", name=""), 400, "令牌须有名称和至少一项权限。")
    checked(await node.post_form("/messages/payload", id="nothing"), 404, "没有此单据")
    checked(await hub.post_form("/certificates/token", node="10008", hours="x"), 400, "有效期须为小时数。")
    checked(await hub.post_form("/definitions/import", document="", why="x", expect="x"), 400, "所比较的版本须为数字。")
    stranger = await scene.sites["node"].browser()
    stranger.headers.update(CHINESE)
    *_, token = re.findall('name="csrf" value="([0-9a-f]+)"', (await stranger.get("/sign-in")).text)
    wrong = {"csrf": token, "name": "maria", "password": "wrong"}
    checked(await stranger.post("/sign-in", data=wrong), 401, "用户或密码不正确")

    async def no_store(*arguments: Any, **more: Any) -> None:
        raise StoreUnavailable(fault="server closed the connection")

    monkeypatch.setattr(Visit, "read", no_store)
    checked(await node.get("/audit"), 503, "无法连接数据库")


async def test_a_fault_of_definitions_is_in_chinese(scene: Scene) -> None:
    hub = await chinese_visitor(scene, "hub")
    document = '[[agreements]]\nfrom = ["10008"]\nto = ["99999"]\n'
    page = checked(await hub.post_form("/definitions/compare", document=document), 200, "不是本枢纽的机构")
    assert "which is not an institution of this hub" in page  # the exact text


async def test_a_scheduled_document_names_its_time_and_its_expiry(scene: Scene) -> None:
    times = {"not_before": 4_000_000_000_000, "expires_at": 4_000_000_060_000}
    answer = await scene.ask("node", "msg.submit", target="56001", **times)
    browser = await chinese_visitor(scene, "node")
    page = checked(await browser.get(f"/messages/{answer['lk0']}"), 200, "已提交", "等待其时间", "下一步：<time")
    assert page.count("2096-10-02 07:06:40 UTC</time>") == 3  # detail, next event, facts
    assert page.count("2096-10-02 07:07:40 UTC</time>") == 2
    await scene.ask("node", "msg.cancel", id=answer["lk0"], why="done")


async def test_failed_documents_acts_jobs_and_checks_have_no_english_sentence(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = await scene.send("56001", "trade/order//Z-1")

    async def is_stored() -> bool:
        return bool((await scene.ask("node", "msg.show", id=refused))["ss_status"] == "SS_ACK")

    await until(is_stored)
    await scene.ask("hub", "held.refuse", ids=[refused], why="原因")

    async def is_refused() -> bool:
        return bool((await scene.ask("node", "msg.show", id=refused)).get("reason"))

    await until(is_refused)
    monkeypatch.setattr(
        scene.node.clockwork.records["housekeeping"], "error", str(StoreUnavailable("The store is not open."))
    )
    browser = await chinese_visitor(scene, "node")
    checked(await browser.get("/jobs"), 200, "存储未打开。")
    page = checked(await browser.get("/"), 200, "存储未打开。")
    assert page.count("SEMQ-3001 The store is not open.") == 1
    checked(await browser.get(f"/messages/{refused}"), 200, "由 guest 在枢纽拒绝：原因")
    checked(await browser.get("/failed"), 200)
    checked(await browser.get("/audit"), 200)
    ask = Visit.ask

    async def failing(visit: Visit, operation: str, **arguments: Any) -> Any:
        if operation == "node.health":
            return {"verdict": "failing", "checks": checks_of_failing_nodes()}
        if operation == "msg.hold":
            raise StoreUnavailable("The store is not open.")
        answer = await ask(visit, operation, **arguments)
        if operation == "failed.list":
            answer["rows"][0] |= {"reason": ["SEMQ-1201", UnknownTarget().text], "error": ""}
        return answer

    monkeypatch.setattr(Visit, "ask", failing)
    checked(await browser.get("/failed"), 200, "<code>SEMQ-1201</code> 枢纽没有这个机构")
    for path in ("/health", "/"):
        checked(await browser.get(path), 200, "发布者在等待：内存不足")
    await browser.look("/failed")
    prepared = await browser.post_form("/acts/prepare", act="hold", ids=refused, back="/")
    act = prepared.headers["location"]
    await browser.post_form(f"{act}/start", why="the partner asked")

    async def has_ended() -> bool:
        return "<progress" in (page := (await browser.get(act)).text) and "say bad" in page

    await until(has_ended)
    checked(await browser.get(act), 200, "存储未打开。")
    await browser.post_form("/jobs/act", name="housekeeping", act="pause", why="not before noon")
    for path in ("/failed", "/jobs", "/"):
        checked(await browser.get(path), 200, '<span lang="en">')
    await browser.post_form("/jobs/act", name="housekeeping", act="resume")
