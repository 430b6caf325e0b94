"""The output of each command if a simulated node answers with control characters in every text."""

import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from semq.app import AppKey, Document, Fate, Sent
from semq.app.errors import RefusedByNode
from semq.cli import session
from semq.cli.groups import GROUPS
from tests.cli.command import semq

BAD = "x\x1b[2J\x1b]0;owned\x07\r\n\tforged line\u202e\u200b\x9b31m\x00\u2028y"
UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u202e\u2028]")
LK0 = f"1.{BAD}.1.1.1.1099511627777"
STUCK = {"cause": BAD, "meaning": BAD, "next_step": BAD}
ROW: dict[str, Any] = {
    "name": BAD, "lk0": LK0, "id": 7, "side": "inbound", "at": 1, "source": BAD, "target": BAD,
    "app_key": f"a/{BAD}/b/{BAD}", "size": 3, "app_status": BAD, "reason": [BAD, BAD], "order_key": BAD,
    "token": BAD, "stuck": STUCK, "error": BAD + "\n" + BAD,
    "failed_at": 1, "headers": {BAD: [BAD]}, "accepted_at": BAD, "held": True,
}  # fmt: skip
LINE = {
    "at": 1, "node": BAD, "side": BAD, "event": BAD, "words": BAD, "att": 1, "detail": BAD, "via": BAD, "proved": False
}  # fmt: skip
TRACE = {"lk0": LK0, "events": [LINE], "others": [BAD], "unanswered": [{"node": BAD, "why": BAD}]}
STATUS = {
    "kind": BAD, "node": BAD, "started_at": BAD, "boot": 1, "store_uuid": BAD, "incarnation": BAD, "shortage": BAD,
    "hub": {"link": "down", "node": BAD, "last_error": BAD}, "sql_waiting": {BAD: BAD}, "counters": {BAD: 1},
    "partners": {BAD: {"online": True, "agreed": [BAD]}}, "certificates": {BAD: 1.0}, "engine_starts": 2,
    "certificate": {"state": BAD, "not_after": BAD, "days_left": 1.0, "renew_at": BAD, "node": BAD},
    "extract": {"at": BAD, "exit_status": 1, "output": BAD},
    "telemetry": {"exported": 1, "failures": 1, "failing_since": 1, "last_error": BAD},
    "datagrams": {"port": 1, "strangers": 1, "peers": {BAD: {"state": "closed", "why": BAD}}},
}  # fmt: skip
PAGE = {
    "rows": [dict.fromkeys(("vhost", "name", "queue", "tag", "user", "peer", "client", "source"), BAD)],
    "next": None,
}
TOKEN = {
    "id": BAD, "token": BAD, "name": BAD, "scopes": [BAD], "inbox": BAD, "made_by": BAD, "made_at": BAD,
    "expires_at": None, "revoked_at": None, "revoked_by": None,
}  # fmt: skip
USER_ACTS = ("add", "roles", "password", "disable", "enable")
PERSON = {
    "name": BAD, "roles": [BAD], "made_at": BAD, "made_by": BAD, "disabled_at": None, "has_password": True,
    "password": BAD,
}  # fmt: skip
AUDIT_LINE = {
    "number": 7, "at": BAD, "who": BAD, "via": BAD, "peer": BAD, "act": BAD, "arguments": {BAD: BAD}, "outcome": BAD,
    "detail": BAD, "asked": None, "read_payload": True,
}  # fmt: skip
CERTIFICATE = {
    "node": BAD,
    "state": BAD,
    "days_left": BAD,
    "serial": BAD,
    "why": BAD,
    "not_after": BAD,
    "renew_at": BAD,
}
DEFINITIONS = {"document": BAD, "changes": [BAD], "version": BAD, "stops": [BAD], "stops_whole": True}
HELD = {
    "source": BAD,
    "target": BAD,
    "rows": 1,
    "bytes": 1,
    "oldest_at": 1,
    "only_copies": 0,
    "markers": 0,
    "refused": 0,
}
OPERATION = {
    "name": BAD, "kind": BAD, "role": BAD, "summary": BAD,
    "arguments": {
        "$ref": BAD, "$defs": {BAD: {"properties": {BAD: {"type": BAD, "description": BAD, "default": BAD}}}},
    },
}  # fmt: skip
MOVED = {"homes": 1, "moves": [{"from": BAD, "to": BAD, "homes": BAD}]}
ROLL = {
    "authority": BAD, "phase": BAD, "former": BAD, "new": BAD, "started_at": BAD, "waiting_for": [BAD],
    "waiting_for_stores": [BAD],
    "nodes": [{"node": BAD, "state": BAD, "online": BAD, "left_behind": BAD, "fault": BAD}],
}  # fmt: skip
# Operation | answer of the simulated node; other operations answer with ROW
ANSWERS: dict[str, Any] = {
    **{name: {"rows": [ROW], "next": None} for name in ("msg.list", "stuck.list", "failed.list")},
    "held.list": [ROW | {"held": True}],
    "msg.trace": TRACE, "node.operations": [OPERATION],
    "stuck.explain": {"message": ROW, "stuck": STUCK, "last_events": [LINE]},
    "msg.body": {"body_base64": "eBsh", "size": 3},
    "msg.prove": {"proof": BAD, "lk0": BAD, "receiver": BAD},
    "queue.census": {
        **{queue: {BAD: 1} for queue in ("sent", "received", "submitted")}, "pieces": {BAD: {"rows": 1, "bytes": 1}},
        "pairs": [{"target": BAD, "rows": 1, "bytes": 1, "oldest_at": 1}],
    },
    "figures.pairs": [{"source": BAD, "target": BAD, "documents": {BAD: 1, "stored": BAD}}],
    "figures.traffic": {
        "documents": {"delivered": 1}, "latency": {"delivered": {}}, "backlog": {BAD: BAD}, "counted_until": BAD,
        "points": [{"at": BAD, "documents": {"delivered": BAD}}],
    },
    "users.list": [{"node": BAD, "user": BAD, "present": True}],
    "held.count": [HELD | {"is_served": False}], "held.refuse": {"counts": {"refused": 1}, "done": True, "after": 0},
    "held.resend": {"counts": {"resent": 1}, "done": True, "after": 0}, "node.status": STATUS,
    "node.health": {"verdict": BAD, "checks": [{"check": BAD, "verdict": BAD, "detail": BAD}]},
    "node.metrics": {"text": BAD},
    "node.drain": {"drained": True, BAD: BAD}, "node.reload": {"changed": [BAD], "restart": [BAD], "ended": [BAD]},
    "nodes.list": [{"node": BAD, "online": BAD, "held": BAD}], "nodes.token": {BAD: BAD}, "nodes.rebind": {"node": BAD},
    "user.list": [PERSON], **dict.fromkeys((f"user.{act}" for act in USER_ACTS), PERSON),
    "audit.list": [AUDIT_LINE], "token.create": TOKEN, "token.list": [TOKEN], "token.revoke": TOKEN,
    "cert.list": [CERTIFICATE], "cert.show": CERTIFICATE, "trust.list": {"fingerprints": [BAD], "pem": BAD},
    "cert.renew": CERTIFICATE, "cert.rotate": CERTIFICATE, "cert.revoke": {"revoked": [BAD]},
    "definitions.export": DEFINITIONS, "definitions.diff": DEFINITIONS, "definitions.import": DEFINITIONS,
    "stores.list": [{"store": BAD, "state": "retired", "by": BAD, "why": BAD}],
    "stores.add": {"store": BAD, "weight": 1.0},
    "stores.move": MOVED, "stores.balance": MOVED,
    "hub.health": [{"store": BAD, "host": BAD, "checks": [{"check": BAD, "verdict": BAD, "detail": BAD}]}],
    "hub.instances": [{"store": BAD, "alive": True, "host": BAD, "endpoint": BAD, "started": BAD}],
    **dict.fromkeys(("ca.show", "ca.roll", "ca.leave"), ROLL),
    "server.list": [
        {"institution": BAD, "state": BAD, "link": BAD, "waiting": BAD, "connections": BAD, "memory_bytes": BAD,
         "memory_max_bytes": BAD, "database": BAD, "error": BAD},
    ],
    "server.reload": {"added": [BAD], "removed": [BAD], "changed": {BAD: {BAD: [BAD]}}, "failing": {BAD: BAD}},
    "server.restart": {"institution": BAD},
    "node.missing": {
        "since": BAD, "count": 1, "rows": [ROW | {"partner": BAD, "lost_as": "receiver"}],
        "unanswered": [{"node": BAD, "why": BAD}],
    },
    "stores.retire": {"was_retired": True, "store": BAD},
    "ledger.verify": {"lines": BAD, "from": BAD, "to": BAD, "head": BAD},
    "failed.requeue": {"requeued": 1, "became": {BAD: {"lk0": BAD, "name": BAD, "state": BAD, "reason": [BAD, BAD]}}},
    "failed.remove": {"removed": 1},
    **dict.fromkeys(
        ("broker.queues", "broker.consumers", "broker.connections", "broker.channels", "broker.exchanges",
         "broker.bindings", "worker.list"), PAGE,
    ),
}  # fmt: skip
# Command | its arguments
COMMANDS: dict[str, tuple[str, ...]] = {
    "msg send": ("--to", "1", "--file", "-"), "msg receive": (), "msg list": (), "msg show": ("1",),
    "msg trace": ("1", "--full"), "msg wait": ("1",),
    "msg body": ("1",), "msg prove": ("1",), "msg cancel": ("1",), "msg hold": ("1",), "msg release": ("1",),
    "msg resend": ("1",), "msg inquire": ("1",), "figures traffic": (), "figures pairs": (),
    "queue list": (), "queue partners": (), "queue users": (),
    "stuck list": (),
    "stuck explain": ("1",), "failed list": (), "failed show": ("1",), "failed park": ("1",), "failed requeue": ("1",),
    "failed remove": ("1",), "held list": (), "held count": (), "held refuse": ("1", "--why", "x"),
    "held resend": ("1",),
    "node status": (), "node health": (), "node metrics": (), "node incarnation": (), "node drain": (),
    "node missing": (), "node reload": (),
    "node list": (), "hub nodes token": ("1",), "hub nodes rebind": ("1",),
    "server list": (), "server reload": (), "server restart": ("1",),
    "hub ca show": (), "hub ca roll": (), "hub ca leave": ("1",),
    "hub instances": (), "hub health": (),
    "hub stores list": (), "hub stores add": ("1.2",),
    "hub stores move": ("1.2", "1"), "hub stores balance": (), "hub stores retire": ("1.2", "--why", "x"),
    "cert list": (), "cert show": (),
    "cert trust": (), "cert renew": (), "cert rotate": (), "cert revoke": ("1", "--why", "x"), "cert needs-renewal": (),
    "definitions export": (), "definitions diff": ("FILE",),
    "definitions import": ("FILE", "--yes"), "ledger verify": (),
    "broker queues": (), "broker consumers": (), "broker connections": (), "broker channels": (),
    "broker exchanges": (),
    "broker bindings": (), "worker list": (),
    "user list": (), "user add": ("NAME", "--role", "viewer"), "user roles": ("NAME", "--role", "viewer"),
    "user password": ("NAME",), "user disable": ("NAME",), "user enable": ("NAME",),
    "audit list": (), "token create": ("NAME", "--scope", "submit"), "token list": (), "token revoke": ("1",),
}  # fmt: skip
RAW = {"msg body", "msg receive", "msg prove", "node metrics", "definitions export"}  # print files unchanged to a pipe


class HostileDocument(Document):
    """A document whose acknowledgement does nothing."""

    async def ack(self) -> None:
        pass


class HostileInbox:
    """A subscription with one hostile document."""

    async def __aenter__(self) -> "HostileInbox":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def __aiter__(self) -> AsyncIterator[Document]:
        yield HostileDocument(LK0, BAD, BAD, AppKey(BAD, BAD, BAD, BAD), b"plain", BAD, BAD)


class SimulatedNode:
    """A client whose node answers every request, or refuses it if the URL ends with ``refuses``."""

    def __init__(self, url: str, **_: Any) -> None:
        self.refuses = url.endswith("refuses")
        self.node = BAD
        self.user = BAD

    async def connect(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def request(self, operation: str, *_: Any, **__: Any) -> Any:
        if self.refuses:
            raise RefusedByNode({"code": "SEMQ-1214", "text": BAD, "remedy": BAD, "facts": {"why": BAD}})
        return ANSWERS.get(operation, ROW)

    async def look(self, *_: Any, **__: Any) -> Any:
        return await self.request("msg.show")

    async def send(self, *_: Any, **__: Any) -> Sent:
        await self.request("msg.submit")
        return Sent(LK0, BAD, False, BAD)

    async def wait_for_delivery(self, *_: Any, **__: Any) -> Fate:
        await self.request("msg.show")
        return Fate(BAD, BAD, BAD)

    def receive(self, *_: Any, **__: Any) -> HostileInbox:
        return HostileInbox()


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)  # files of documents
    monkeypatch.setattr(session, "Client", SimulatedNode)
    file = tmp_path / "definitions.toml"
    file.write_text("x = 1")
    return file


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_prints_a_control_character(command: str, simulated: Path) -> None:
    words = [str(simulated) if word == "FILE" else word for word in COMMANDS[command]]
    for extra in ([], ["--json"]):
        result = semq(*command.split(), *words, "--node", "simulated", *extra, stdin=b"x")
        assert result.status in (0, 1), result
        assert "Traceback" not in result.err
        if not (command in RAW and (not extra or command == "msg prove")):
            assert not UNSAFE.search(result.out), result.out
        assert not UNSAFE.search(result.err), result.err
        if extra and result.out and command != "msg prove":
            json.loads(result.out)
    refused = semq(*command.split(), *words, "--node", "refuses", stdin=b"x")
    assert not UNSAFE.search(refused.out + refused.err)
    assert len(refused.err.splitlines()) <= 1 + (command == "msg receive")


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - RAW))
def test_no_command_prints_a_value_of_python_or_a_bare_time(command: str, simulated: Path) -> None:
    words = [str(simulated) if word == "FILE" else word for word in COMMANDS[command]]
    out = semq(*command.split(), *words, "--node", "simulated", stdin=b"x").out
    assert not re.search(r"\{'|\['|: True|: None|\bNone\b", out), out
    assert "1970" not in out or re.search(r"1970-01-01T\d\d:\d\d(:\d\d)?[+-]\d\d:\d\d", out), out


def test_every_command_that_asks_a_node_is_in_the_table() -> None:
    asking = set()
    for row in GROUPS:
        group = row.load()
        asking |= set(_asking_commands(row.name, group))
        for subgroup in group.registered_groups:
            if subgroup.typer_instance is not None:
                asking |= set(_asking_commands(f"{row.name} {subgroup.name}", subgroup.typer_instance))
    assert asking - set(COMMANDS) == set()


def _asking_commands(name: str, group: typer.Typer) -> Iterator[str]:
    """Yield the commands of a group that ``on_node`` has made."""
    for command in group.registered_commands:
        if command.callback is not None and hasattr(command.callback, "__wrapped__"):
            yield f"{name} {command.name or command.callback.__name__}"
