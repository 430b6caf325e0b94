"""The import: each unfinished row becomes one document; if it may have arrived, the receiver is asked first."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg
import pytest

from local_node.node import LocalNode
from semq.app import Client
from semq.legacy.process import NotAnInstitution, run_import
from semq.legacy.report import ImportReport
from semq.legacy.source import SMALL
from semq.legacy.transfer import BATCH
from tests.depth import deeper
from tests.legacy import sample
from tests.service.inprocess import InProcess, ask, linked
from tests.waiting import until

Nodes = tuple[LocalNode, LocalNode]
ORDERED = deeper(60, 200)  # documents in a fixed order


@pytest.fixture
async def nodes(inprocess: InProcess) -> Nodes:
    hub = await inprocess.hub()
    pair = await inprocess.local("10008", hub.port), await inprocess.local("56001", hub.port)
    await linked(*pair)
    return pair


def url(node: LocalNode) -> str:
    return f"amqp://guest:guest@127.0.0.1:{node.port}"


async def imported(node: LocalNode, folder: Path, **options: Any) -> ImportReport:
    async with Client(url(node), patience_s=60) as client:
        defaults: dict[str, Any] = {"journal": folder / f"{node.address}.journal", "source": str(folder / "old.db")}
        return await run_import(client, **(defaults | options))


def results(report: ImportReport, kind: str = "tb_0031") -> dict[str, int]:
    return dict(report.tables[kind].results)


async def received(node: LocalNode, count: int, user: str = "") -> list[tuple[str, bytes, str]]:
    """Return the documents that an application receives: key, payload, source."""
    documents_received = []
    async with Client(url(node), patience_s=60) as client, client.receive(user) as documents:
        for _ in range(count):
            document = await anext(documents)
            documents_received.append((document.app_key.key, document.payload, document.source))
            await document.ack()
    return documents_received


def accepted(node: LocalNode) -> int:
    """Return the number of documents that a node has accepted with a token."""
    with psycopg.connect(node.store.url) as connection:
        (count,) = connection.execute("SELECT count(*) FROM tb_0031_token").fetchone() or (0,)
    return int(count)


STATUSES = [sample.INIT, sample.SENT, sample.ACK_FWD, sample.ACK, sample.ACK2]


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "csv"])
async def test_each_status_has_its_result_and_nothing_is_sent_twice(
    kind: str, nodes: Nodes, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    sender, receiver = nodes
    rows = [sample.outbound(number, status) for number, status in enumerate(STATUSES, 1)]
    at_receiver = [sample.pending(1, record=2), sample.pending(2, record=3, p_ack=1), sample.pending(3, 9, 1, 1)]
    (tmp_path / "b").mkdir()
    source, source_of_receiver = tmp_path / "old.db", tmp_path / "b" / "old.db"
    options: dict[str, Any] = {}
    if kind == "csv":
        sample.write_csv(tmp_path, rows, to_do=[sample.to_do(1), sample.to_do(2, 1)])
        (tmp_path / "mapping.toml").write_text('encoding = "base64"')
        options = {"source": str(tmp_path), "mapping": tmp_path / "mapping.toml"}
    else:
        old = f"sqlite:///{source}" if kind == "sqlite" else str(request.getfixturevalue("empty_database"))
        sample.fill(old, rows, to_do=[sample.to_do(1), sample.to_do(2, 1)])
        options = {"source": old}
    sample.fill(f"sqlite:///{source_of_receiver}", pending=at_receiver)

    dry = await imported(sender, tmp_path, dry_run=True, **options)
    assert (results(dry), results(dry, "tb_0032")) == ({"send": 1, "ask": 3, "finished": 1}, {"send": 1, "finished": 1})
    assert accepted(sender) == 0

    noted = await imported(receiver, tmp_path, source=str(source_of_receiver))
    assert results(noted, "tb_0030") == {"noted": 2, "finished": 1}
    report = await imported(sender, tmp_path, **options)
    # 2 and 3 have arrived through the older SEMQ; 4 was lost at its hub.
    assert results(report) == {"sent": 2, "already_received": 2, "finished": 1}
    assert results(report, "tb_0032") == {"sent": 1, "finished": 1}
    assert report.as_json()["ok"]
    assert await received(receiver, 2) == [
        ("S0001", b"order 1", "1.10008"), ("S0004", b"order 4", "1.10008"),
    ]  # fmt: skip
    assert [(key, body) for key, body, _ in await received(sender, 1, "bob")] == [("T1", b"note 1")]

    repeated = await imported(sender, tmp_path, **options)
    assert results(repeated) == {"known": 4, "finished": 1}
    without_journal = await imported(sender, tmp_path, journal=tmp_path / "another", **options)
    assert results(without_journal) == {"known": 2, "already_received": 2, "finished": 1}
    assert accepted(sender) == 3
    noted_again = await imported(receiver, tmp_path, source=str(source_of_receiver))
    assert results(noted_again, "tb_0030") == {"known": 2, "finished": 1}


async def test_a_document_that_may_have_arrived_is_not_sent_without_an_answer_of_its_receiver(
    nodes: Nodes, tmp_path: Path
) -> None:
    sender, _ = nodes
    sample.fill(f"sqlite:///{tmp_path}/old.db", [sample.outbound(1, sample.SENT, target="88001")])
    report = await imported(sender, tmp_path)
    assert (results(report), report.as_json()["ok"]) == ({"unanswered": 1}, False)
    assert (report.listed[0]["reason"], report.listed[0]["record"]) == ("UNANSWERED", "1")
    assert accepted(sender) == 0
    # The node refuses the row, because there is no agreement with 88001.
    assert results(await imported(sender, tmp_path, resend_unanswered=True)) == {"rejected": 1}


async def test_rows_that_cannot_be_imported_are_listed_and_do_not_stop_others(nodes: Nodes, tmp_path: Path) -> None:
    sender, receiver = nodes
    rows = [
        sample.outbound(1),
        sample.outbound(2, target="99999"),
        sample.outbound(3, app_data=bytes(200_000)),
        sample.outbound(4, app_data=None),
        sample.outbound(5, 77),
        sample.outbound(6, app_key="\x1b[31m"),
        sample.outbound(7),
        sample.outbound(7, app_data=b"another"),
        sample.outbound(8, target="'; DROP TABLE tb_0031; --"),
        sample.outbound(9),
    ]
    sample.fill(f"sqlite:///{tmp_path}/old.db", rows)
    dry = await imported(sender, tmp_path, dry_run=True)
    assert dry.tables["tb_0031"].reasons == Counter(NO_PAYLOAD=1, BAD_STATUS=1, BAD_APP_KEY=1, SAME_ID=1, BAD_TARGET=1)
    report = await imported(sender, tmp_path, rejects=tmp_path / "rejects.csv")
    assert results(report) == {"sent": 3, "rejected": 7}
    reasons = {line["record"]: line["reason"] for line in report.listed}
    assert reasons == {
        "2": "SEMQ-1201", "3": "SEMQ-1203", "4": "NO_PAYLOAD", "5": "BAD_STATUS", "6": "BAD_APP_KEY", "7": "SAME_ID",
        "8": "BAD_TARGET",
    }  # fmt: skip
    assert len((tmp_path / "rejects.csv").read_text().splitlines()) == 8
    assert [key for key, *_ in await received(receiver, 3)] == ["S0001", "S0007", "S0009"]


async def test_a_row_of_another_database_with_a_record_number_of_the_journal_is_rejected(
    nodes: Nodes, tmp_path: Path
) -> None:
    sender, receiver = nodes
    large = bytes(SMALL + 1)
    first = [sample.outbound(1), sample.outbound(2), sample.outbound(3), sample.outbound(4, app_data=large)]
    second = [
        sample.outbound(1, app_data=b"another payload"), sample.outbound(2, target_user="another"),
        sample.outbound(3, app_key="another"), sample.outbound(4, app_data=large[1:] + b"1"), sample.outbound(5),
    ]  # fmt: skip
    databases = [str(tmp_path / name) for name in ("first.db", "second.db")]
    sample.fill(f"sqlite:///{databases[0]}", first, to_do=[sample.to_do(1), sample.to_do(2)])
    second_to_do = [sample.to_do(1, app_data=b"x"), sample.to_do(2, from_user="x")]
    sample.fill(f"sqlite:///{databases[1]}", second, to_do=second_to_do)

    assert results(await imported(sender, tmp_path, source=databases[0])) == {"sent": 4}
    for dry_run, new in ((True, "send"), (False, "sent"), (False, "known")):
        report = await imported(sender, tmp_path, source=databases[1], dry_run=dry_run)
        assert results(report) == {"rejected": 4, new: 1}
        assert results(report, "tb_0032") == {"rejected": 2}
        assert {line["reason"] for line in report.listed} == {"SAME_ID"}
        assert not report.as_json()["ok"]
    repeated = await imported(sender, tmp_path, source=databases[0])
    assert (results(repeated), results(repeated, "tb_0032")) == ({"known": 4}, {"known": 2})
    assert accepted(sender) == 7
    assert [key for key, *_ in await received(receiver, 5)] == ["S0001", "S0002", "S0003", "S0004", "S0005"]


@pytest.mark.parametrize("distance", [2, BATCH + 1])
async def test_a_later_row_of_a_file_with_a_record_number_of_another_is_rejected(
    distance: int, nodes: Nodes, tmp_path: Path
) -> None:
    sender, _ = nodes
    between = [sample.to_do(number, 1) for number in range(2, distance + 1)]
    sample.write_csv(tmp_path, to_do=[sample.to_do(1), *between, sample.to_do(1, to_user="eve")])
    report = await imported(sender, tmp_path, source=str(tmp_path / "tb_0032.csv"))
    assert report.tables["tb_0032"].reasons == Counter(SAME_ID=1)
    assert accepted(sender) == 1


async def test_rows_in_a_journal_from_before_digests_are_known_by_their_number(nodes: Nodes, tmp_path: Path) -> None:
    sender, receiver = nodes
    rows = [sample.outbound(1, app_data=None), sample.outbound(2)]
    sample.fill(f"sqlite:///{tmp_path}/old.db", rows, pending=[sample.pending(1, 7)])
    journal = tmp_path / "journal"
    sample.write_journal_without_digests(journal, ["import:tb_0031:1.10008.1.1.0.1", "import:tb_0030:1.10008.1.1.0.7"])
    report = await imported(sender, tmp_path, journal=journal)
    assert results(report) == {"known_by_number": 1, "sent": 1}
    assert results(report, "tb_0030") == {"known": 1}
    assert report.as_json()["ok"]
    assert results(await imported(sender, tmp_path, journal=journal)) == {"known_by_number": 1, "known": 1}
    assert [key for key, *_ in await received(receiver, 1)] == ["S0002"]


async def test_documents_keep_the_order_of_their_records(nodes: Nodes, tmp_path: Path) -> None:
    sender, receiver = nodes
    sample.fill(f"sqlite:///{tmp_path}/old.db", [sample.outbound(number) for number in range(ORDERED, 0, -1)])
    reading = asyncio.create_task(received(receiver, ORDERED))
    assert results(await imported(sender, tmp_path)) == {"sent": ORDERED}
    assert [key for key, *_ in await reading] == [f"S{number:04d}" for number in range(1, ORDERED + 1)]


async def test_an_import_at_the_hub_is_refused(inprocess: InProcess, tmp_path: Path) -> None:
    hub = await inprocess.hub()
    sample.fill(f"sqlite:///{tmp_path}/old.db")
    async with Client(f"amqp://guest:guest@127.0.0.1:{hub.port}") as client:
        with pytest.raises(NotAnInstitution):
            await run_import(client, str(tmp_path / "old.db"))


async def test_only_locators_of_older_messages_are_accepted_in_inquiries_and_notes(
    nodes: Nodes, inprocess: InProcess
) -> None:
    sender, receiver = nodes
    at_sender, at_receiver = await inprocess.client(sender), await inprocess.client(receiver)
    new_lk0 = "1.10008.1.1.a1.7"
    for link, operation, arguments in (
        (at_sender, "import.ask", {"lk0": new_lk0, "target": "56001"}),
        (at_sender, "import.ask", {"lk0": "1.77.1.1.0.7", "target": "56001"}),
        (at_receiver, "import.received", {"lk0s": ["1.10008.1.1.0.7", new_lk0]}),
    ):
        assert (await ask(link, operation, arguments))["error"]["code"] == "SEMQ-2102"
    old_lk0 = "1.10008.1.1.0.7"
    question = {"lk0": old_lk0, "target": "56001"}
    await until(lambda: receiver.parts.hub.link is not None)
    assert (await ask(at_sender, "import.ask", question))["result"]["received"] is False
    assert (await ask(at_receiver, "import.received", {"lk0s": [old_lk0, old_lk0]}))["result"] == {
        "noted": 1,
        "known": 0,
    }
    assert (await ask(at_receiver, "import.received", {"lk0s": [old_lk0]}))["result"] == {"noted": 0, "known": 1}
    assert (await ask(at_sender, "import.ask", question))["result"]["received"] is True
