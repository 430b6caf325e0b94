"""The judge finds each kind of disagreement, and none where all statements agree."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from semq.engine.errors import PiecesMissing, TargetNotAllowed
from semq.store.rows import Event, Side
from tests.campaign import acts
from tests.campaign.judgement import ATTEMPTS_MIN, AgreementJudge
from tests.campaign.notebook import (
    CANCELLED,
    CONFIRMED,
    DELIVERED,
    DROPPED,
    IN_DOUBT,
    LOST,
    OPEN,
    REFUSED,
    REJECTED,
    UNKNOWN,
    Handed,
    Notebook,
    NotedReceipt,
    PermittedOutcome,
    RestoredStore,
)
from tests.campaign.promises import EFFECTS_FROM, effects, without_effect
from tests.campaign.statements import (
    AlarmLine,
    LedgerStatements,
    MessageStory,
    VerdictRow,
    dump,
    figures_of,
    refused_in_pieces,
    waiting,
)
from tests.crash.faults import CycleFault

REFUSED_ROW = """INSERT INTO tb_0031_submit (target, payload, reason_code, reason_text, lk0)
    VALUES ('56001', '', 'SEMQ-1202', 'no agreement', %s)"""
PIECE_ROW = "INSERT INTO tb_0031_piece (document, number, payload) SELECT max(number), 9, 'x' FROM tb_0031_submit"
PIECES_IN_TB_0030 = """INSERT INTO tb_0030 (bref, lk0, store, inc, src_object_id, target, target_user, save_fwd, ack2,
    status, received_at) SELECT n, '1.10008.1.1.1.' || n, '1.10008.1.1', 1, n, '1.20002', '_pieces', 3, true, 410, now()
    FROM generate_series(7, 8) n"""
SOURCE, TARGET = "queues", "1.20002"
FIRST, SECOND = "1.10008.1.1.aa.1", "1.10008.1.1.aa.2"
CLEAN = VerdictRow("MATCHED", "all_agree", "date")


class JudgedCase:
    """Two documents of one order key, delivered as the notebook expects."""

    def __init__(self, folder: Path) -> None:
        self.notebook = Notebook(folder / "notebook.jsonl")
        self.statements = LedgerStatements()
        for number, lk0 in ((1, FIRST), (2, SECOND)):
            document = Handed(
                number, "ordered", frozenset({"order"}), SOURCE, "pika", TARGET, (TARGET,), 3, 1, "k", 10,
                frozenset({DELIVERED}),
            )  # fmt: skip
            self.notebook.hand(document)
            self.notebook.tell(document, CONFIRMED)
            self.notebook.tell_outcome(number, TARGET, DELIVERED)
            self.receive(number, lk0, at=float(number))
            story = MessageStory(
                lk0,
                TARGET,
                number,
                accepted=1,
                ends=[DELIVERED],
                hub=["FORWARDED"],
                received={"sql": 1},
                at_receiver=["RECEIVED"],
            )
            self.statements.stories[lk0] = story
            self.statements.by_number[number] = [story]
            self.statements.verdicts[lk0] = CLEAN

    def receive(self, number: int, lk0: str, *, at: float, flagged: bool = False, digest: str = "") -> None:
        digest = digest or self.notebook.documents[number].digest
        self.notebook.receive(NotedReceipt(number, TARGET, lk0, digest, flagged, "ack", at, ""))

    def found(self) -> dict[str, int]:
        """Return the number of findings of each kind that has any."""
        found = AgreementJudge(self.notebook, self.statements).judge()
        return {kind: len(texts) for kind, texts in found.by_kind.items() if texts}


@pytest.fixture
def case(tmp_path: Path) -> Iterator[JudgedCase]:
    case = JudgedCase(tmp_path)
    yield case
    case.notebook.close()


def test_nothing_is_found_where_all_statements_agree(case: JudgedCase) -> None:
    assert case.found() == {}


def _lose(case: JudgedCase) -> None:
    case.notebook.receipts[1].clear()
    case.statements.stories[FIRST].received.clear()


def _repeat_as_another(case: JudgedCase) -> None:
    case.receive(1, SECOND, at=3.0)


def _repeat_without_mark(case: JudgedCase) -> None:
    case.receive(2, SECOND, at=3.0)


def _record_twice(case: JudgedCase) -> None:
    case.statements.stories[FIRST].received["sql"] = 2


def _swap(case: JudgedCase) -> None:
    first, second = case.notebook.receipts[1], case.notebook.receipts[2]
    first[0], second[0] = first[0]._replace(at=5.0), second[0]._replace(at=4.0)


def _tell_rejected(case: JudgedCase) -> None:
    case.notebook.documents[1].outcomes[TARGET] = [REJECTED]


def _tell_nothing(case: JudgedCase) -> None:
    case.notebook.documents[1].outcomes.clear()


def _alter_bytes(case: JudgedCase) -> None:
    case.notebook.receipts[1][0] = case.notebook.receipts[1][0]._replace(digest="00")


def _judge_otherwise(case: JudgedCase) -> None:
    case.statements.verdicts[FIRST] = VerdictRow("REACK_NOT_RETURNED", "reack_not_noted", "date")


def _forget_hub(case: JudgedCase) -> None:
    case.statements.verdicts[FIRST] = VerdictRow("STATE_CONTRADICTION", "hub_has_no_trace", "date")


def _refuse(case: JudgedCase) -> None:
    case.notebook.documents[1].certainty = REFUSED


def _give_to_another(case: JudgedCase) -> None:
    first = case.notebook.receipts[1][0]
    case.notebook.receipts[1].append(first._replace(receiver="1.30003"))


def _name_another(case: JudgedCase) -> None:
    case.notebook.receipts[1][0] = case.notebook.receipts[1][0]._replace(source="1.30003")


def _give_too_early(case: JudgedCase) -> None:
    case.notebook.documents[1].not_before = 5_000


def _record_too_late(case: JudgedCase) -> None:
    case.notebook.documents[1].expires_at, case.statements.stories[FIRST].received_at = 5_000, 60.0


def _carry_in_clear(case: JudgedCase) -> None:
    document = case.notebook.documents[1]
    document.traits |= {"sealed"}
    case.statements.stories[FIRST].digests = {document.digest}


def _carry_other_bytes(case: JudgedCase) -> None:
    case.statements.stories[FIRST].digests = {"00"}


def _accept_half(case: JudgedCase) -> None:
    for document in case.notebook.documents.values():
        document.batch, document.certainty = 1, IN_DOUBT
    case.notebook.receipts[2].clear()
    case.statements.by_number.clear()
    case.statements.by_number[1] = [case.statements.stories[FIRST]]
    del case.statements.verdicts[SECOND]
    case.notebook.documents[2].outcomes.clear()


@pytest.mark.parametrize(
    ("plant", "kinds"),
    [
        (_lose, {"lost"}),
        (_repeat_as_another, {"duplicated", "other", "reordered"}),
        (_repeat_without_mark, {"duplicated"}),
        (_record_twice, {"duplicated"}),
        (_swap, {"reordered"}),
        (_tell_rejected, {"false_outcomes"}),
        (_tell_nothing, {"false_outcomes"}),
        (_alter_bytes, {"other"}),
        (_give_to_another, {"other"}),
        (_name_another, {"other"}),
        (_give_too_early, {"other"}),
        (_record_too_late, {"other"}),
        (_carry_in_clear, {"other"}),
        (_carry_other_bytes, {"other"}),
        (_judge_otherwise, {"verdict_disagreements"}),
        (_forget_hub, {"verdict_disagreements"}),
        (_refuse, {"false_outcomes"}),
        (_accept_half, {"other"}),
    ],
)
def test_each_disagreement_is_found(case: JudgedCase, plant: Callable[[JudgedCase], None], kinds: set[str]) -> None:
    plant(case)
    assert case.found().keys() == kinds


def test_a_killed_hub_may_lack_lines_about_messages_that_it_forwarded(case: JudgedCase) -> None:
    _forget_hub(case)
    document = case.notebook.documents[1]
    case.notebook.hub_outages.append((document.handed_at, document.handed_at + 1))
    assert case.found() == {}


@pytest.mark.parametrize(("traits", "kinds"), [("large", set()), ("", {"false_outcomes"})])
def test_only_a_document_in_pieces_may_be_refused_after_its_door_took_it(
    case: JudgedCase, traits: str, kinds: set[str]
) -> None:
    document, began = case.notebook.documents[1], case.notebook.documents[1].handed_at
    document.traits = frozenset(traits.split())
    document.outcomes[TARGET] = [REJECTED]
    case.notebook.receipts[1].clear()
    case.notebook.permitted.append(PermittedOutcome(began, began + 1, ("SEMQ-1202",), source=SOURCE))
    refused = MessageStory(FIRST, TARGET, 1, refused=["SEMQ-1202 no agreement"])
    case.statements.stories[FIRST], case.statements.by_number[1] = refused, [refused]
    case.statements.verdicts[FIRST] = VerdictRow("REFUSED", "refused_by_sender", "date")
    assert case.found().keys() == kinds


def test_a_document_in_doubt_may_be_unknown_everywhere(case: JudgedCase) -> None:
    case.notebook.documents[1].certainty = IN_DOUBT
    case.notebook.documents[1].outcomes.clear()
    case.notebook.receipts[1].clear()
    case.statements.by_number[1].clear()
    del case.statements.verdicts[FIRST]
    assert case.found() == {}


def test_a_document_that_was_sealed_again_is_one_document(case: JudgedCase) -> None:
    refused = MessageStory("1.10008.1.1.aa.0", TARGET, 1, accepted=1, ends=[REJECTED], reason="SEMQ-5201 no key")
    case.statements.by_number[1].insert(0, refused)
    case.statements.verdicts[refused.lk0] = VerdictRow("REFUSED", "refused_by_receiver", "date")
    assert case.found() == {}
    case.statements.by_number[1][0] = replace(refused, reason="SEMQ-1201 unknown")
    assert case.found().keys() == {"duplicated"}


def _restore(case: JudgedCase, name: str, address: str) -> None:
    """Let a store forget the first document, which was handed over before the backup of which it is restored."""
    began = case.notebook.documents[2].answered_at + 1
    case.notebook.restore(RestoredStore(name, address, began, began + 1, frozenset({FIRST}), frozenset({1})))
    case.statements.missing[name] = {FIRST}


@pytest.mark.parametrize(("ack2", "kinds"), [(0, set()), (1, {"lost"})])
def test_a_sender_without_a_receipt_has_no_body_for_a_restored_receiver(
    case: JudgedCase, ack2: int, kinds: set[str]
) -> None:
    _restore(case, "sql", TARGET)
    _forget_receipt(case)
    case.statements.missing.clear()
    document, story = case.notebook.documents[1], case.statements.stories[FIRST]
    document.ack2, story.ends, story.reason = ack2, [LOST], "void"
    document.outcomes = {"status": [LOST]}
    case.statements.verdicts[FIRST] = VerdictRow("NOT_DELIVERED", "declared_lost", "date")
    assert case.found().keys() == kinds


@pytest.mark.parametrize(("returned", "kinds"), [(ATTEMPTS_MIN, set()), (2, {"lost", "verdict_disagreements"})])
def test_a_document_that_is_always_returned_is_parked(case: JudgedCase, returned: int, kinds: set[str]) -> None:
    for _ in range(1, returned):
        case.receive(1, FIRST, at=3.0, flagged=True)
    case.notebook.receipts[1] = [each._replace(answer="requeue") for each in case.notebook.receipts[1]]
    case.notebook.receipts[2][0] = case.notebook.receipts[2][0]._replace(at=4.0)
    case.statements.verdicts[FIRST] = VerdictRow("PARKED", "parked_by_application", "date")
    assert case.found().keys() == kinds


@pytest.mark.parametrize("told", [UNKNOWN, DROPPED])
def test_a_sender_may_not_learn_that_the_hub_dropped_its_document(case: JudgedCase, told: str) -> None:
    document, story = case.notebook.documents[1], case.statements.stories[FIRST]
    document.save_fwd, document.ends, document.outcomes = 1, frozenset({UNKNOWN, DROPPED}), {TARGET: [told]}
    case.notebook.receipts[1].clear()
    story.ends, story.hub, story.received, story.at_receiver = [told], [DROPPED], {}, []
    case.statements.verdicts[FIRST] = VerdictRow("DROPPED_BY_POLICY", "dropped_at_hub", "date")
    assert case.found() == {}


@pytest.mark.parametrize(("code", "kinds"), [("SEMQ-1202", set()), ("SEMQ-1201", {"verdict_disagreements"})])
def test_a_piece_may_be_refused_where_a_fault_permits_it(case: JudgedCase, code: str, kinds: set[str]) -> None:
    piece = MessageStory("1.10008.1.1.aa.9", f"{TARGET}/_pieces", is_piece=True, accepted=1, ends=[REJECTED])
    piece.reason, piece.hub = f"{code} refused", ["REFUSED"]
    case.statements.stories[piece.lk0] = piece
    case.statements.verdicts[piece.lk0] = VerdictRow("REFUSED", "refused_by_hub", "date")
    case.notebook.permitted.append(PermittedOutcome(0, 1, ("SEMQ-1202",), SOURCE, TARGET))
    assert case.found().keys() == kinds


@pytest.mark.parametrize(("name", "kinds"), [("sql", set()), ("http", {"false_outcomes", "verdict_disagreements"})])
async def test_a_restored_receiver_may_have_lost_pieces_for_which_it_gave_receipts(
    case: JudgedCase, name: str, kinds: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    @asynccontextmanager
    async def put_back(*_: object) -> AsyncIterator[tuple[float, list[object], int]]:
        yield case.notebook.documents[1].handed_at, [], 0

    monkeypatch.setattr(acts, "_put_back", put_back)
    world: Any = SimpleNamespace(notebook=case.notebook)
    await acts.restore(world, CycleFault(0.0, "restore", name))
    document, story = case.notebook.documents[1], case.statements.stories[FIRST]
    document.outcomes, story.ends, story.reason = {TARGET: [REJECTED]}, [REJECTED], f"{PiecesMissing.code} pieces"
    case.notebook.receipts[1].clear()
    story.received, story.at_receiver = {}, ["REJECTED"]
    case.statements.verdicts[FIRST] = VerdictRow("REFUSED", "refused_by_receiver", "date")
    assert case.found().keys() == kinds


def _forget_receipt(case: JudgedCase) -> None:
    case.statements.stories[FIRST].received.clear()
    case.statements.stories[FIRST].at_receiver.clear()


@pytest.mark.parametrize(
    ("ends", "hub", "finding"),
    [
        ([DELIVERED], ["FORWARDED"], "settled_without_record"),
        ([REJECTED], ["STORED", "VOIDED", "SENT", "RELEASED"], "end_without_record"),
        ([CANCELLED], ["STORED", "VOIDED", "SENT", "RELEASED"], "end_without_record"),
        ([], ["STORED", "SENT", "RELEASED"], "unreceipted_and_lost"),  # the sender wants no receipt
    ],
)
def test_a_restored_receiver_lacks_what_it_lists_and_the_reconciliation_finds_it(
    case: JudgedCase, ends: list[str], hub: list[str], finding: str
) -> None:
    _restore(case, "sql", TARGET)
    _forget_receipt(case)
    story = case.statements.stories[FIRST]
    story.ends, story.hub = ends, hub
    case.notebook.documents[1].ends = frozenset(ends or {OPEN})
    case.notebook.documents[1].outcomes = {TARGET: ends} if ends else {}
    case.statements.missing["sql"] = {FIRST} if ends == [DELIVERED] else set()
    story.at_receiver.append("OPERATOR")  # a copy whose certificate is awaited
    case.statements.verdicts[FIRST] = VerdictRow("STATE_CONTRADICTION", finding, "date")
    assert case.found() == {}
    case.statements.verdicts[FIRST] = CLEAN
    assert case.found().keys() == {"verdict_disagreements"}


def test_a_restored_sender_lacks_what_it_lists_and_the_reconciliation_finds_it(case: JudgedCase) -> None:
    _restore(case, SOURCE, "1.10008")
    story = case.statements.stories[FIRST]
    story.accepted, story.ends = 0, []
    case.statements.verdicts[FIRST] = VerdictRow("UNKNOWN_ORIGIN", "not_at_sender", "date")
    assert case.found() == {}
    del case.statements.by_number[1]  # the hub refused it and has not its number
    assert case.found() == {}
    case.statements.verdicts[FIRST] = CLEAN
    assert case.found().keys() == {"verdict_disagreements"}


def test_a_fault_that_refuses_nothing_is_found(case: JudgedCase) -> None:
    document = case.notebook.documents[1]
    began, code = document.handed_at - 1, TargetNotAllowed.code
    case.notebook.permitted.append(PermittedOutcome(began, began + 2, (code,), SOURCE, TARGET))
    assert effects(case.notebook, case.statements) == {code: [2, 0]}
    case.notebook.documents[2].refusal = f"{code} no agreement"
    assert effects(case.notebook, case.statements) == {code: [2, 1]}
    assert list(without_effect({code: [EFFECTS_FROM[code], 1]})) == []
    assert len(list(without_effect({code: [EFFECTS_FROM[code], 0], PiecesMissing.code: [1000, 0]}))) == 1


@pytest.mark.parametrize("listed", [set[str](), {FIRST, SECOND}])
def test_a_restored_node_lists_what_it_has_lost_and_nothing_else(case: JudgedCase, listed: set[str]) -> None:
    _restore(case, "sql", TARGET)
    _forget_receipt(case)
    case.statements.verdicts[FIRST] = VerdictRow("STATE_CONTRADICTION", "settled_without_record", "date")
    case.statements.missing["sql"] = listed
    assert case.found() == {"other": 1}


def test_a_restore_excuses_no_document_of_which_no_line_is_lost(case: JudgedCase) -> None:
    _restore(case, "sql", TARGET)
    case.statements.missing.clear()
    case.notebook.receipts[2].clear()
    assert case.found().keys() == {"lost"}


OWN, PARTNER = "1.10008", "1.20002"


def counted_story(
    lk0: str, target: str, *, received: int = 0, ends: tuple[str, ...] = (), is_piece: bool = False
) -> MessageStory:
    return MessageStory(
        lk0, target, is_piece=is_piece, ends=list(ends), received={"queues": received} if received else {}
    )


def test_documents_are_counted_for_the_partner_and_in_all() -> None:
    statements = LedgerStatements()
    stories = (
        counted_story("1.10008.1.1.aa.1", f"{PARTNER}/user", ends=("DELIVERED",)),
        counted_story("1.10008.1.1.aa.2", PARTNER, ends=("REJECTED",)),
        counted_story("1.20002.1.1.bb.1", OWN, received=1, ends=("DELIVERED",)),
        counted_story("1.20002.1.1.bb.2", f"{OWN}/_pieces", received=1, is_piece=True),
        counted_story("1.10008.1.1.aa.3", OWN, received=1, ends=("DELIVERED",)),
    )
    statements.stories = {each.lk0: each for each in stories}
    found = figures_of(statements, "queues", OWN)
    assert +found == {
        ("", "delivered"): 2, (PARTNER, "delivered"): 1, (OWN, "delivered"): 1,
        ("", "received"): 2, (PARTNER, "received"): 1, (OWN, "received"): 1,
    }  # fmt: skip


class _OneStore:
    """A world with one store."""

    store_names = ("store",)

    def __init__(self, url: str, notebook: Notebook) -> None:
        self.notebook = notebook
        self._url = url

    def database(self, store: str) -> str:
        return self._url


def test_refused_documents_in_pieces_and_other_waiting_rows_are_found(database: str, tmp_path: Path) -> None:
    notebook = Notebook(tmp_path / "notebook.jsonl")
    world: Any = _OneStore(database, notebook)
    with psycopg.connect(database) as connection:
        for lk0 in ("1.10008.1.1.1.1", "1.10008.1.1.1.2"):
            connection.execute(REFUSED_ROW, [lk0])
        connection.execute(PIECE_ROW)
        connection.execute(PIECES_IN_TB_0030)
    assert refused_in_pieces(world, "store") == ["1.10008.1.1.1.2"]
    assert waiting(world) == {"store.tb_0031_piece": 1, "store.tb_0030": 2}
    assert dump(world).count("store.tb_0030:") == 2
    notebook.restore(RestoredStore(SOURCE, "1.10008", 0, 1, frozenset({"1.10008.1.1.1.7"}), frozenset()))
    assert waiting(world) == {"store.tb_0031_piece": 1, "store.tb_0030": 1}  # the receiver keeps the other one
    notebook.close()


@pytest.mark.parametrize(
    ("side", "lk0", "target", "is_about"),
    [
        (Side.RECEIVER, "1.20002.1.1.aa.1", "1.10008", True),  # its document
        (Side.SENDER, "1.10008.1.1.aa.1", "1.20002/desk", True),  # its receipt for a document of another one
        (Side.SENDER, "", "1.20002", True),  # its certificate
        (Side.RECEIVER, "1.10008.1.1.aa.1", "1.20002", False),  # what another one sent to it
        (Side.SENDER, "1.10008.1.1.aa.1", "1.200021", False),
    ],
)
def test_an_alarm_is_about_the_party_that_caused_it(side: Side, lk0: str, target: str, is_about: bool) -> None:
    assert AlarmLine("node", side, Event.VIOLATION, lk0, target, "").is_about("1.20002") is is_about
