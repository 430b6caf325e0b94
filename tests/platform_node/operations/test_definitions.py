"""Definitions on a running network: how they come into force, and their agreements at submission and at the hub."""

from functools import partial
from typing import Any

import psycopg
import pytest
from structlog.testing import capture_logs

from semq.engine.frames import write_frame
from semq.store import identities
from semq.store.postgres.migration import engine_of
from semq.umx_t.address import Address
from semq.umx_t.app_key import parse_app_key
from semq.umx_t.envelope import Attributes, Data, Envelope
from semq.umx_t.locator import LK0
from semq.umx_t.version import PROPERTY, offer
from tests.service.inprocess import InProcess, ask, cut_off, linked
from tests.transport.publishing import publish_and_wait
from tests.waiting import until

SENDER, PARTNER = Address(1, "10008"), Address(1, "56001")
AGREED = """
[nodes."77001"]
[[agreements]]
from = ["10008"]
to = ["56001"]
types = ["order"]
bytes_max = 10
per_minute = 3
[[agreements]]
from = ["10008"]
to = ["56001"]
types = ["secret"]
encrypt = true
[[agreements]]
from = ["10008"]
to = ["56001"]
types = ["slow"]
waiting_max = 1
"""


def document(type_: str, body: str = "eA==", to: str = "56001", **more: Any) -> dict[str, Any]:
    return {"target": to, "app_key": f"trade/{type_}//S1", "body_base64": body, **more}


async def test_agreements_are_checked_at_submission(inprocess: InProcess) -> None:
    hub, a = await inprocess.linked_pair()
    admin, app = await inprocess.client(hub), await inprocess.client(a)
    assert (await ask(app, "msg.submit", document("anything")))["ok"]
    answer = (await ask(admin, "definitions.import", {"document": AGREED, "why": "test"}))["result"]
    assert answer["version"] == 1
    await until(lambda: a.engine.partners.terms.get("1.56001"))

    async def code(arguments: dict[str, Any]) -> str:
        return str((await ask(app, "msg.submit", arguments)).get("error", {}).get("code"))

    assert await code(document("order")) == "None"
    assert await code(document("anything")) == "SEMQ-1211"
    assert await code(document("order", "eHh4eHh4eHh4eHh4")) == "SEMQ-1203"
    assert await code(document("order", to="88001")) == "SEMQ-1202"
    assert await code(document("order", to="99999")) == "SEMQ-1201"
    assert await code(document("order", to="77001")) == "SEMQ-1201"  # a new institution without an agreement
    assert [await code(document("order")) for _ in range(3)][-1] == "SEMQ-1213"
    assert await code(document("slow")) == "SEMQ-1204"  # other documents of this pair wait already
    refusal = await code(document("secret"))
    assert refusal not in ("None", "SEMQ-1211")  # the partner has no certificate for a seal

    assert (await ask(admin, "definitions.export"))["result"] == {"version": 1, "document": AGREED}
    assert (await ask(admin, "definitions.diff", {"document": AGREED}))["result"]["changes"] == []
    again = {"document": AGREED, "expect": 1}
    assert (await ask(admin, "definitions.import", again))["result"] == {"version": 1, "changes": []}
    late = await ask(admin, "definitions.import", {"document": "", "expect": 0})
    assert late["error"]["code"] == "SEMQ-1261"
    assert (await ask(admin, "definitions.import", {"document": "x"}))["error"]["code"] == "SEMQ-1260"
    assert (await ask(admin, "definitions.import", {"document": "", "expect": 1}))["result"]["version"] == 2
    await until(lambda: "1.56001" not in a.engine.partners.terms)
    assert await code(document("anything")) == "None"
    await until(lambda: a.engine.partners.allowed.get("1.77001") is not True)
    assert await code(document("order", to="77001")) in ("SEMQ-1201", "SEMQ-1202")


async def test_definitions_written_by_sql_are_applied_by_the_job(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    with psycopg.connect(hub.store.url) as connection:
        connection.execute("INSERT INTO definition VALUES (7, %s, now(), '')", [AGREED])
    hub.clockwork.hasten("definitions")
    await until(lambda: hub.directory.version == 7)
    assert hub.directory.knows("1.77001")


async def test_definitions_imported_by_another_process_are_applied_immediately(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform_node.node.FOLLOW_S", 3600.0)
    hub = await inprocess.hub()
    with engine_of(hub.store.url).connect() as connection:
        assert identities.add_definition(connection, AGREED, hub.clock.wall(), "", 0) == 1
    await until(lambda: hub.directory.version == 1)
    assert hub.directory.knows("1.77001")


@pytest.mark.parametrize(("version", "document"), [(1, ""), (2, AGREED + "# other")], ids=["earlier", "replaced"])
async def test_the_definitions_of_a_restored_control_database_are_in_force(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch, version: int, document: str
) -> None:
    monkeypatch.setattr("platform_node.node.FOLLOW_S", 3600.0)
    hub = await inprocess.hub()
    admin = await inprocess.client(hub)
    await ask(admin, "definitions.import", {"document": '[nodes."77002"]\n'})
    assert (await ask(admin, "definitions.import", {"document": AGREED}))["result"]["version"] == 2
    with psycopg.connect(hub.store.url) as connection:
        connection.execute("DELETE FROM definition")
        connection.execute("INSERT INTO definition VALUES (%s, %s, now(), '')", [version, document])
    with capture_logs() as logs:
        await hub.definition_operations.follow()
        await hub.definition_operations.follow()
    assert [line["event"] for line in logs if line["log_level"] == "error"] == ["definitions_went_back"]
    assert hub.directory.knows("1.77001") == (document != "")
    if document:
        assert (await ask(admin, "definitions.export"))["result"] == {"version": version, "document": document}
    assert (await ask(admin, "definitions.import", {"document": AGREED}))["result"]["version"] == version + 1


async def test_definitions_that_a_restored_control_database_lacks_are_not_in_force(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    admin = await inprocess.client(hub)
    await ask(admin, "definitions.import", {"document": AGREED})
    with psycopg.connect(hub.store.url) as connection:
        connection.execute("DELETE FROM definition")
    await hub.definition_operations.follow()
    assert (hub.directory.version, hub.directory.knows("1.77001")) == (0, False)


VIOLATIONS: list[tuple[str, bytes, dict[str, Any], str]] = [
    ("anything", b"x", {}, "SEMQ-1211"),
    ("order", b"x" * 11, {}, "SEMQ-1203"),
    ("secret", b"x", {}, "SEMQ-1212"),
    ("secret", b"x", {"encrypt": True}, "SEMQ-1212"),
]


async def test_the_hub_refuses_documents_of_a_node_that_ignores_agreements(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    await ask(await inprocess.client(hub), "definitions.import", {"document": AGREED})
    login = {"virtual_host": "umx", "user": "1.10008", "password": "pass-10008"}
    hostile = await inprocess.client(hub, **login, client_properties={PROPERTY: offer()})
    channel = await hostile.open_channel()
    await channel.confirm_select()
    received: list[str] = []
    for queue in ("node.1.10008", "node.1.10008.control"):
        await channel.consume(
            queue, lambda batch: received.extend(bytes(delivered.body).decode() for delivered in batch), no_ack=True
        )
    for number, (type_, body, further, code) in enumerate(VIOLATIONS):
        attributes = Attributes(app_key=parse_app_key(f"trade/{type_}//S1"), **further)
        lk0 = LK0(1, "10008", 1, 1, 5, number)
        key, header, data = write_frame(
            Data(Envelope(source=SENDER, target=PARTNER, lk0=lk0, attributes=attributes, sid=number, att=1), body)
        )
        await publish_and_wait(channel, "umx", key, header, bytes(data))
        await until(partial(is_refused_in, received, code, str(lk0)))
    assert not hub.engine.custody.rows_by_target


def is_refused_in(lines: list[str], code: str, lk0: str) -> bool:
    return any(code in line and lk0 in line for line in lines)


async def test_the_hub_applies_the_quota_of_a_pair_also_after_a_restart(inprocess: InProcess) -> None:
    hub, a = await inprocess.linked_pair()
    app = await inprocess.client(a)
    for _ in range(2):
        assert (await ask(app, "msg.submit", document("slow")))["ok"]
    await until(lambda: hub.engine.custody.waiting("1.10008", "1.56001") == 2)
    cut_off(hub)
    await until(lambda: hub.engine_starts == 2)
    assert hub.engine.custody.waiting("1.10008", "1.56001") == 2
    await ask(await inprocess.client(hub), "definitions.import", {"document": AGREED})
    attributes = Attributes(app_key=parse_app_key("trade/slow//S1"))
    refused = hub.directory.refuse(
        Envelope(source=SENDER, target=PARTNER, lk0=LK0(1, "10008", 1, 1, 5, 1), attributes=attributes, att=1),
        1,
        hub.engine.custody.waiting,
    )
    assert refused is not None
    assert refused[0] == "SEMQ-1204"
    b = await inprocess.local("56001", hub.port)
    await linked(b)
    await until(lambda: not hub.engine.custody._by_pair)


@pytest.mark.parametrize("name", ["definitions.diff", "definitions.import"])
async def test_an_operation_without_definitions_is_refused(inprocess: InProcess, name: str) -> None:
    hub = await inprocess.hub()
    assert (await ask(await inprocess.client(hub), name))["error"]["code"] == "SEMQ-2102"
