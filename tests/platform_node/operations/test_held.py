"""Copies at a hub, on the command line."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from local_node.node import LocalNode
from platform_node.node import HubNode
from semq.cli.hub import held_copies
from semq.engine.sender.receipts import NO_TARGET_KNOWN
from semq.store.rows import Event
from semq.transport.client import ClientLink
from semq.umx_t.short_name import short_name
from tests.cli.command import CommandResult, semq_aside
from tests.flows.by_hand import PROPERTIES
from tests.service.inprocess import HUB_CONFIG, LOCAL_CONFIG, InProcess, ask, linked
from tests.waiting import until

TEXT = HUB_CONFIG.replace('may_send_to = ["56001", "10008"]\n', "")


@dataclass
class HeldScene:
    """A hub, and a node that sends documents to offline institutions."""

    hub: HubNode
    node: LocalNode
    admin: ClientLink  # administration of the hub
    app: ClientLink  # application of the node

    async def submit(self, to: str, count: int = 1, **more: Any) -> list[str]:
        """Submit documents, and wait until the hub stores them; return their LK0s."""
        before = self.hub.engine.custody.rows_by_target.get(f"1.{to}", 0)
        lk0s = []
        for number in range(count):
            arguments = {"target": to, "body_base64": "eA==", "app_key": f"trade/order//S{number}", **more}
            lk0s.append(str((await ask(self.app, "msg.submit", arguments))["result"]["lk0"]))
        await until(lambda: self.hub.engine.custody.rows_by_target.get(f"1.{to}", 0) == before + count)
        return lk0s

    async def semq(self, *words: str, node: LocalNode | HubNode | None = None) -> CommandResult:
        """Run a command, at the hub unless a node is given."""
        at = f"amqp://guest:guest@127.0.0.1:{(node or self.hub).port}"
        return await semq_aside(*words, "--node", at)

    async def details(self, link: ClientLink, lk0: str, event: Event) -> list[str]:
        answer = await ask(link, "msg.trace", {"id": lk0})
        return [line["detail"] for line in answer["result"]["events"] if line["event"] == event.name]

    async def outcome(self, lk0: str) -> str | None:
        """Return the outcome of a document as text ("None": open); None if the node does not know the document."""
        answer = await ask(self.app, "msg.show", {"id": lk0})
        return str(answer["result"]["outcome"]) if answer["ok"] else None

    def remove_institution(self, node: str) -> None:
        nodes = self.hub.settings.nodes.items()
        self.hub.directory.configure({name: section for name, section in nodes if name != node})

    async def is_marker(self, lk0: str) -> bool:
        """Whether the sender has replaced the document by a void marker."""
        return bool((await ask(self.app, "msg.show", {"id": lk0}))["result"]["void"])


@pytest.fixture
async def scene(inprocess: InProcess) -> HeldScene:
    hub = await inprocess.hub(TEXT)
    node = await inprocess.local("10008", hub.port)
    await linked(node)
    return HeldScene(hub, node, await inprocess.client(hub), await inprocess.client(node))


async def test_copies_for_a_removed_institution_are_refused(scene: HeldScene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_copies, "BATCH", 2)
    lk0s = await scene.submit("56001", 5)
    others = await scene.submit("88001", 1)
    scene.remove_institution("56001")
    dry_run = await scene.semq("held", "refuse", "--target", "56001", "--dry-run")
    assert dry_run.status == 0
    assert "5 copies" in dry_run.out
    assert scene.hub.engine.custody.rows_by_target == {"1.56001": 5, "1.88001": 1}
    result = await scene.semq("held", "refuse", "--target", "56001", "--why", "closed on 31 March", "--json")
    assert result.status == 0, result
    assert result.out == '{"refused": 5}\n'
    for lk0 in lk0s:
        await until(partial(_has_outcome, scene, lk0, "UNKNOWN"))
        words = "refused at the hub by guest: closed on 31 March (this store of the hub had not sent it yet)"
        assert await scene.details(scene.app, lk0, Event.UNKNOWN) == [f"SEMQ-1214 {words}. {NO_TARGET_KNOWN}"]
        assert await scene.details(scene.admin, lk0, Event.OPERATOR) == ["refused by guest: closed on 31 March"]
        refused = await scene.details(scene.admin, lk0, Event.REFUSED)
        # The second line is the refusal of the sender's marker.
        assert refused == [f"SEMQ-1214 {words}", "SEMQ-1201 The hub knows no institution 1.56001."]
    await until(lambda: scene.hub.engine.custody.rows_by_target == {"1.88001": 1})
    assert await scene.outcome(others[0]) == "None"
    failed = await scene.semq("failed", "list", "--json", node=scene.node)
    assert failed.out.count('"error": "SEMQ-1214') == 5
    bodies = await ask(scene.app, "msg.body", {"id": lk0s[0]})
    assert bodies["result"]["body_base64"] == "eA=="


async def test_the_marker_of_a_refused_copy_is_delivered_later(inprocess: InProcess, scene: HeldScene) -> None:
    [lk0] = await scene.submit("56001")
    result = await scene.semq("held", "refuse", lk0, "--why", "too old")
    assert result.out == "1 refused; their senders are informed\n"
    await until(partial(scene.is_marker, lk0))
    shown = await scene.semq("stuck", "explain", lk0, node=scene.node)
    assert "GIVEN_UP: an operator of the hub has refused it" in shown.out
    assert "GIVEN_UP" in (await scene.semq("stuck", "list", node=scene.node)).out
    receiver = await inprocess.local("56001", scene.hub.port)
    await linked(receiver)
    await until(partial(_has_outcome, scene, lk0, "REJECTED"))
    received = (await ask(await inprocess.client(receiver), "msg.list", {"side": "inbound"}))["result"]["rows"]
    assert {row["status"] for row in received} <= {"VOID"}


async def _has_outcome(scene: HeldScene, lk0: str, outcome: str) -> bool:
    return await scene.outcome(lk0) == outcome


async def test_a_batch_returns_the_position_of_the_next_one(scene: HeldScene) -> None:
    await scene.submit("56001", 3)
    arguments = {"target": "56001", "why": "w", "limit": 2}
    first = (await ask(scene.admin, "held.refuse", arguments))["result"]
    assert (first["counts"], first["done"]) == ({"refused": 2}, False)
    second = (await ask(scene.admin, "held.refuse", arguments | {"after": first["after"]}))["result"]
    assert second["counts"]["refused"] == 1
    assert second["done"] or "marker" in second["counts"]  # markers may be stored by now


async def test_an_act_reports_the_copies_that_it_left_unchanged(scene: HeldScene) -> None:
    [only] = await scene.submit("56001", 1, ack2=0)
    [cancelled] = await scene.submit("56001", 1)
    assert (await ask(scene.app, "msg.cancel", {"id": cancelled}))["ok"]
    counted = partial(ask, scene.admin, "held.count", {"target": "56001"})
    await until(partial(_is_counted, counted, "markers", 1))
    [row] = (await counted())["result"]
    assert (row["rows"], row["only_copies"], row["markers"], row["is_served"]) == (2, 1, 1, True)
    result = await scene.semq("held", "refuse", "--all", "--why", "closed")
    assert "1 unchanged: the only copy" in result.out
    assert "1 unchanged: void markers end when their target is online" in result.out
    [copy] = [row for row in (await ask(scene.admin, "held.list"))["result"] if row["lk0"] == only]
    result = await scene.semq("held", "refuse", f"1.1.{copy['id']}", "--why", "closed", "--only-copies")  # its LK1
    assert result.out == "1 refused; their senders are informed\n"
    await until(partial(_is_counted, counted, "markers", 2))  # of the refused and of the cancelled document
    # Now no node can answer the markers.
    scene.remove_institution("56001")
    result = await scene.semq("held", "refuse", "--target", "56001", "--why", "closed")
    assert result.out == "2 refused; their senders are informed\n"
    await until(lambda: not scene.hub.engine.custody.rows_by_target)
    assert await scene.details(scene.app, cancelled, Event.UNKNOWN) != []


async def _is_counted(read_counts: Any, name: str, count: int) -> bool:
    return any(row[name] == count for row in (await read_counts())["result"])


async def test_copies_are_listed_by_filters(scene: HeldScene) -> None:
    lk0s = await scene.submit("56001", 2)
    await scene.submit("88001", 1, app_key="trade/invoice//I1")
    rows = (await ask(scene.admin, "held.list", {"target": "56001", "source": "10008", "key": "S"}))["result"]
    assert [row["lk0"] for row in rows] == lk0s
    assert (await ask(scene.admin, "held.list", {"type": "invoice"}))["result"][0]["target"] == "1.88001"
    assert (await ask(scene.admin, "held.list", {"before_ms": 1000}))["result"] == []
    assert (await ask(scene.admin, "held.list", {"parked": True}))["result"] == []
    result = await scene.semq("held", "list")
    assert result.out.count("order S") == 2
    assert "88001" in result.out
    assert "3 copies" in (await scene.semq("held", "count", "--older-than", "0s")).out


async def test_a_refused_copy_is_shown_until_the_sender_of_the_document_has_confirmed(scene: HeldScene) -> None:
    [lk0] = await scene.submit("56001")
    await scene.node.stop()
    await until(lambda: "1.10008" not in scene.hub.engine.sessions)
    assert (await scene.semq("held", "refuse", lk0, "--why", "closed")).status == 0
    assert (await scene.semq("held", "refuse", lk0, "--why", "closed")).out.startswith("1 refused before")
    result = await scene.semq("stuck", "explain", lk0)
    assert "RETURNED: an operator has refused it, and its sender has not confirmed that yet" in result.out
    assert "refused" in (await scene.semq("held", "list")).out
    resent = await scene.semq("held", "resend", lk0)
    assert (resent.status, resent.out) == (1, "1 not sent again: refused before; their senders are informed\n")
    assert (await scene.semq("held", "resend", "--all", "--json")).out == '{"refused": 1}\n'


async def test_a_document_that_ended_unknown_is_listed_as_stuck_at_its_sender(
    inprocess: InProcess, scene: HeldScene
) -> None:
    """56001 receives the document without acknowledging it, and is then removed."""
    [lk0] = await scene.submit("56001")
    link = await inprocess.client(
        scene.hub, user="1.56001", password="pass-56001", virtual_host="umx",
        client_properties=PROPERTIES | {"node": "1.56001"},
    )  # fmt: skip
    channel = await link.open_channel()
    received: list[Any] = []
    await channel.consume("node.1.56001", received.extend)
    await (await link.open_channel()).consume("node.1.56001.control", lambda batch: None, no_ack=True)
    await until(lambda: received)
    await link.close()
    scene.remove_institution("56001")
    assert (await scene.semq("held", "refuse", lk0, "--why", "closed")).out == "1 refused; their senders are informed\n"
    await until(partial(_has_outcome, scene, lk0, "UNKNOWN"))
    [row] = (await ask(scene.app, "failed.list"))["result"]["rows"]
    assert row["lk0"] == lk0
    assert "closed. The hub does not know the target any more" in row["error"]
    assert (await ask(scene.app, "stuck.explain", {"id": lk0}))["result"]["stuck"]["cause"] == "REFUSED"
    result = await scene.semq("failed", "remove", lk0, "--why", "sent by post", node=scene.node)
    assert result.out == "1 document removed\n"
    assert (await ask(scene.app, "failed.list"))["result"]["rows"] == []


async def test_a_document_that_no_application_consumes_can_be_parked(inprocess: InProcess, scene: HeldScene) -> None:
    node = await inprocess.start_node(
        inprocess.settings("56001", LOCAL_CONFIG.format(name="56001", hub=scene.hub.port))
    )
    answer = await ask(scene.app, "msg.submit", {"target": "56001", "body_base64": "eA=="})
    lk0 = answer["result"]["lk0"]
    app = await inprocess.client(node)
    await until(partial(_received_count, app))
    assert (
        await scene.semq("failed", "park", lk0, "--why", "nobody wants it", node=node)
    ).out == f"{short_name(lk0)}  is parked\n"
    [row] = (await ask(app, "failed.list"))["result"]["rows"]
    assert (row["lk0"], row["error"]) == (lk0, "nobody wants it")
    assert (await scene.semq("failed", "requeue", lk0, node=node)).out == "1 document requeued\n"


# operation | arguments | code of the refusal
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("held.refuse", {"target": "56001"}, "SEMQ-2102"),  # no reason
    ("held.refuse", {"why": "w"}, "SEMQ-2102"),  # neither copies nor a filter
    ("held.refuse", {"why": "w", "color": "red"}, "SEMQ-2102"),
    ("held.refuse", {"why": "w", "target": ""}, "SEMQ-2102"),
    ("held.resend", {"key": "", "target": "56001"}, "SEMQ-2102"),
    ("held.refuse", {"why": "w", "ids": ["S1"], "target": "56001"}, "SEMQ-2102"),
    ("held.refuse", {"why": "w", "ids": ["S1"], "everything": True}, "SEMQ-2102"),
    ("held.refuse", {"why": "w", "target": "56001", "limit": 100_000}, "SEMQ-2102"),
    ("held.refuse", {"why": "w", "ids": ["nothing"]}, "SEMQ-1207"),
    ("held.resend", {"ids": list(range(1, 1002))}, "SEMQ-2102"),
    ("held.list", {"limit": 0}, "SEMQ-2102"),
    ("held.list", {"before_ms": -1}, "SEMQ-2102"),
]


async def test_bad_requests_are_refused(scene: HeldScene) -> None:
    answers = [await ask(scene.admin, operation, arguments) for operation, arguments, _ in REFUSED]
    assert [(*case[:2], answer["error"]["code"]) for case, answer in zip(REFUSED, answers, strict=True)] == REFUSED
    result = await scene.semq("held", "refuse", "--why", "w")  # neither names nor a filter
    assert (result.status, "SEMQ-2211" in result.err) == (1, True)
    assert "--target" in result.err
    assert "--partner" not in result.err  # an option of `semq failed`
    result = await scene.semq("held", "refuse", "--all", node=scene.node)
    assert (result.status, "SEMQ-2101" in result.err) == (1, True)
    for _ in range(2):
        await scene.submit("56001", 1)
    answer = await ask(scene.admin, "held.refuse", {"ids": ["S0"], "why": "w"})  # the name of two copies
    assert answer["error"]["code"] == "SEMQ-2102"
    assert scene.hub.engine.custody.rows_by_target == {"1.56001": 2}


async def test_copies_are_sent_again_to_a_target_that_comes_online(inprocess: InProcess, scene: HeldScene) -> None:
    lk0s = await scene.submit("56001", 2)
    result = await scene.semq("held", "resend", *lk0s, "--why", "asked by telephone")
    assert result.out == "2 sent again, now or as soon as their target is online\n"
    again = await scene.semq("msg", "resend", lk0s[0], "--why", "once more", "--json")
    assert again.status == 0
    assert await scene.details(scene.admin, lk0s[0], Event.OPERATOR) == [
        "sent again by guest: asked by telephone",
        "sent again by guest: once more",
    ]
    node = await inprocess.start_node(
        inprocess.settings("56001", LOCAL_CONFIG.format(name="56001", hub=scene.hub.port))
    )
    await until(lambda: not scene.hub.engine.custody.rows_by_target)
    received = await until(partial(_received_count, await inprocess.client(node)))
    assert received == 2
    assert (await scene.semq("held", "resend", "--all", "--dry-run")).out.endswith("0 copies, 0 B\n")


async def _received_count(link: ClientLink) -> int:
    rows: Sequence[Any] = (await ask(link, "msg.list", {"side": "inbound"}))["result"]["rows"]
    return len(rows)
