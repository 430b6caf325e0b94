"""Repair lists on real nodes: a dry run, resolved and open messages, invalid lists."""

import asyncio
import json
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from local_node.node import LocalNode
from semq.app import Client, NoAnswer, NodeUnreachable
from semq.clock import SystemClock
from spark_reconcile import commands
from spark_reconcile.errors import BadRepairList
from spark_reconcile.extracts.manifest import canonical
from spark_reconcile.judgement.verdicts import FINDINGS
from spark_reconcile.repair import acts
from spark_reconcile.repair.acts import ACTS, DeedResult, apply, apply_deed
from spark_reconcile.repair.repair_list import INDEX, RepairLine, read_repair
from spark_reconcile.settings import ReconcileSettings
from spark_reconcile.storage import Place
from tests.service.inprocess import InProcess, linked
from tests.waiting import until


def url(node: Any) -> str:
    return f"amqp://guest:guest@127.0.0.1:{node.port}"


def repair_line(lk0: str, deed: str = "inquire", side: str = "sender") -> RepairLine:
    return RepairLine(lk0, deed, side, "never_arrived", "MISSING_AT_HUB", "1.10008", "1.56001")


def repair_list(folder: Path, **lists: list[RepairLine]) -> Path:
    """Write a repair folder as a run does. ``lists``: lines by node, with ``n1_10008`` for 1.10008."""
    nodes = {}
    for name, lines in lists.items():
        node = name.replace("_", ".").removeprefix("n")
        file = Place.at(folder) / f"{node}.jsonl"
        file.write(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
        nodes[node] = {"file": file.name, "rows": len(lines), "sha256": file.sha256()}
    index = {"business_date": "2026-11-20", "run": "r", "fingerprint": "f", "nodes": nodes, "signature": None}
    (Place.at(folder) / INDEX).write(canonical(index))
    return folder


async def applied(node: Any, folder: Path, *, yes: bool) -> tuple[int, dict[str, Any], list[str]]:
    """Apply a repair list at a node; return exit status, JSON result and printed lines."""
    printed: list[str] = []
    arguments = Namespace(node=url(node), config=None, institution=None, list=str(folder), yes=yes)
    code, result = await asyncio.to_thread(apply, arguments, ReconcileSettings(), None, SystemClock(), printed.append)
    return code, result, printed


async def send_document(node: LocalNode, target: str) -> str:
    async with Client(url(node)) as application:
        return (await application.send(target, b"order")).lk0


async def events(node: Any, lk0: str) -> list[str]:
    async with Client(url(node)) as application:
        return [line["event"] for line in (await application.request("msg.trace", {"id": lk0}))["events"]]


def inquiries(node: LocalNode) -> int:
    return node.engine.core.counters.counts.get("inquired", 0)


async def test_a_node_inquires_about_open_messages_and_skips_resolved_messages(
    inprocess: InProcess, tmp_path: Path
) -> None:
    hub = await inprocess.hub()
    sender, receiver = await inprocess.local("10008", hub.port), await inprocess.local("56001", hub.port)
    await linked(sender, receiver)
    delivered = await send_document(sender, "56001")
    async with Client(url(sender)) as application:
        await application.wait_for_delivery(delivered, timeout_s=60)
    await receiver.stop()
    waiting = await send_document(sender, "56001")

    async def is_stored() -> bool:
        return "STORED" in await events(sender, waiting)

    await until(is_stored)
    # The node's own schedule starts no inquiry for an hour.
    sender.engine.asker.schedule.make_due(0, 1 << 62, sender.engine.core.now() + 3600)
    folder = repair_list(
        tmp_path / "repair",
        n1_10008=[repair_line(delivered), repair_line(waiting), repair_line(waiting, "close"), repair_line(waiting, "reack"),
                  repair_line("1.10008.9.9.3f.1")],
        hub=[repair_line(waiting, side="hub")],
    )  # fmt: skip

    code, result, lines = await applied(sender, folder, yes=False)
    assert (code, result["outcome"]) == (0, "planned")
    assert [deed["result"] for deed in result["deeds"]] == ["resolved", "planned", "left", "left", "left"]
    assert "has no record of it" in result["deeds"][-1]["note"]
    assert lines[-2:] == ["1 resolved, 1 planned, 3 left", "Nothing was done. Give --yes to do it."]
    before = inquiries(sender)
    code, result, _ = await applied(sender, folder, yes=True)
    assert (code, result["outcome"], result["counts"]) == (0, "applied", {"resolved": 1, "done": 1, "left": 3})
    await until(lambda: inquiries(sender) > before)
    _, result, _ = await applied(hub, folder, yes=True)
    assert result["counts"] == {"done": 1}

    await inprocess.start_node(receiver.settings)
    async with Client(url(sender)) as application:
        await application.wait_for_delivery(waiting, timeout_s=60)
    before = inquiries(sender)
    _, result, _ = await applied(sender, folder, yes=True)  # a repetition, with all messages settled
    assert [deed["result"] for deed in result["deeds"][:2]] == ["resolved", "resolved"]
    assert inquiries(sender) == before


async def test_a_deed_that_the_node_cannot_do_is_left_and_a_possible_one_is_done(inprocess: InProcess) -> None:
    hub, sender = await inprocess.pair()
    lk0 = await send_document(sender, "56001")
    async with Client(url(hub)) as application:
        impossible = repair_line(lk0, "resend", "hub")
        assert (await apply_deed(application, impossible, is_real=True)).result == "left"
    async with Client(url(sender)) as application:
        result = await apply_deed(application, repair_line(lk0, "resend"), is_real=True)
        assert result == DeedResult(lk0, "resend", "done", result.note)
        assert "OPERATOR" in await events(sender, lk0)


def test_every_deed_of_the_findings_has_an_act() -> None:
    deeds = {(name, side) for _, side, name in FINDINGS.values() if name}
    assert deeds <= {(act.deed, act.side) for act in ACTS}


async def test_a_node_without_repairs_is_reported(inprocess: InProcess, tmp_path: Path) -> None:
    hub = await inprocess.hub()
    folder = repair_list(tmp_path / "repair", n1_10008=[repair_line("1.10008.1.1.3f.1")])
    assert await applied(hub, folder, yes=True) == (
        0,
        {"outcome": "applied", "exit_code": 0, "counts": {}, "deeds": []},
        ["The repair list has nothing for hub."],
    )


@pytest.mark.parametrize(
    ("failure", "line", "tried"),
    [(NodeUnreachable("Gone."), "2 of 3 deeds were not done", 2), (NoAnswer("Silent."), "1 done, 2 failed", 3)],
)
async def test_failures_are_reported_and_not_counted_as_done(
    inprocess: InProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception, line: str, tried: int
) -> None:
    hub = await inprocess.hub()
    folder = repair_list(
        tmp_path / "repair", hub=[repair_line(f"1.10008.1.1.3f.{number}", side="hub") for number in range(3)]
    )
    tried_messages: list[str] = []

    async def row(_: Client, lk0: str, side: str) -> dict[str, Any]:
        tried_messages.append(lk0)
        if len(tried_messages) > 1:
            raise failure
        return {"outcome": None}

    async def request(client: Client, operation: str, *arguments: Any, **options: Any) -> Any:
        if operation == "msg.inquire":
            return None
        return await unchanged_request(client, operation, *arguments, **options)

    unchanged_request = Client.request
    monkeypatch.setattr(acts, "_row", row)
    monkeypatch.setattr(Client, "request", request)
    code, result, lines = await applied(hub, folder, yes=True)
    assert (code, result["outcome"], result["counts"]) == (1, "failed", {"done": 1, "failed": 2})
    assert line in "\n".join(lines)
    assert len(tried_messages) == tried


def rewrite(file: Path, text: str) -> None:
    file.write_text(text)


# Reported state | change that makes a list invalid.
BAD_LISTS: tuple[tuple[str, Callable[[Path], None]], ...] = (
    ("ALTERED", lambda folder: rewrite(folder / "1.10008.jsonl", json.dumps({"lk0": "another"}))),
    ("MISSING", lambda folder: (folder / "1.10008.jsonl").unlink()),
    (
        "ALTERED",
        lambda folder: _replace_list(folder, msgspec.to_builtins(repair_line("L")) | {"reason": "x" * 70_000}, b"\n"),
    ),
    ("ALTERED", lambda folder: _replace_list(folder, msgspec.to_builtins(repair_line("L")) | {"reason": "x" * 70_000})),
    ("UNKNOWN_SCHEMA", lambda folder: rewrite(folder / INDEX, "no list")),
    ("UNKNOWN_SCHEMA", lambda folder: rewrite(folder / INDEX, '{"nodes": []}')),
    ("UNKNOWN_SCHEMA", lambda folder: _replace_list(folder, {"lk0": 1})),
    ("OTHER_NODE", lambda folder: _replace_list(folder, msgspec.to_builtins(repair_line("L")) | {"sender": "1.56001"})),
    ("OTHER_NODE", lambda folder: _replace_list(folder, msgspec.to_builtins(repair_line("L", side="receiver")))),
)


def _replace_list(folder: Path, line: dict[str, Any], end: bytes = b"") -> None:
    """Replace the list by one line, with an index that agrees."""
    file = Place.at(folder / "1.10008.jsonl")
    file.write(msgspec.json.encode(line) + end)
    nodes = {"1.10008": {"file": file.name, "rows": 1, "sha256": file.sha256()}}
    rewrite(folder / INDEX, json.dumps({"nodes": nodes, "signature": None}))


@pytest.mark.parametrize(("state", "spoil"), BAD_LISTS)
def test_an_invalid_list_is_refused(tmp_path: Path, state: str, spoil: Callable[[Path], None]) -> None:
    folder = repair_list(tmp_path / "repair", n1_10008=[repair_line("1.10008.1.1.3f.1")])
    assert len(read_repair(Place.at(folder), "1.10008")) == 1
    spoil(folder)
    with pytest.raises(BadRepairList) as caught:
        read_repair(Place.at(folder), "1.10008")
    assert caught.value.facts["state"] == state


def test_an_unsigned_list_is_refused_if_signatures_are_required(tmp_path: Path) -> None:
    folder = repair_list(tmp_path / "repair", hub=[repair_line("1.10008.1.1.3f.1", side="hub")])
    with pytest.raises(BadRepairList, match="not signed"):
        read_repair(Place.at(folder), "hub", lambda *_: True)


def test_without_a_node_or_a_run_nothing_is_applied(tmp_path: Path) -> None:
    assert commands.main(["apply", "--list", str(tmp_path)]) == 2
    assert commands.main(["apply", "--business-date", "2026-11-20", "--reports", str(tmp_path), "--node", "x"]) == 4
