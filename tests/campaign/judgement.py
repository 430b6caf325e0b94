"""The judgement: for every document and receiver, notebook, outcome told, ledgers and verdict must agree."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from semq.engine.errors import Expired, UnknownTarget
from semq.seal.errors import KeyUnknown, SignerGone
from semq.store.rows import Event
from semq.umx_t.locator import parse_lk0
from tests.campaign import promises
from tests.campaign.notebook import (
    ABSENT,
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
)
from tests.campaign.statements import LedgerStatements, MessageStory
from tests.campaign.world import ADDRESSES

RESEALED = (KeyUnknown.code, SignerGone.code)
# Noted deliveries after which a document that is always returned may be parked: the limit of a node is 20, and cut
# connections may have swallowed some.
ATTEMPTS_MIN = 16
KINDS = ("lost", "duplicated", "reordered", "false_outcomes", "verdict_disagreements", "other")
# A killed hub may lack lines about messages that it forwarded so many seconds before.
UNWRITTEN_S = 5.0
NEVER = frozenset({ABSENT, REFUSED})
NAMES = {address: name for name, address in ADDRESSES.items()}
RECORDS = {Event.RECEIVED.name, Event.REJECTED.name, Event.CANCELLED.name}  # lines that begin a message at its receiver


@dataclass
class Disagreements:
    """The disagreements. ``by_kind``: descriptions by document and receiver."""

    by_kind: dict[str, list[str]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    numbers: set[int] = field(default_factory=set)
    texts: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, kind: str, number: int, text: str) -> None:
        self.by_kind[kind].append(f"{number}: {text}")
        self.numbers.add(number)
        self.texts[number].append(f"{kind}: {text}")


class AgreementJudge:
    def __init__(self, notebook: Notebook, statements: LedgerStatements) -> None:
        self._notebook = notebook
        self._statements = statements
        self._judged: set[str] = set()  #: LK0s of messages of known documents
        self._resealed: set[int] = set()
        self.findings = Disagreements()

    def judge(self) -> Disagreements:
        """Return all disagreements."""
        for document in self._notebook.documents.values():
            ends = {receiver: self._judge(document, receiver) for receiver in document.receivers}
            if not self._is_lost_at_sender(document) and len({end in NEVER for end in ends.values()}) > 1:
                self._add("other", document, f"accepted for a part of its receivers: {ends}")
        self._judge_batches()
        self._judge_order()
        self._judge_rest()
        self._judge_missing()
        for number, text in promises.broken(self._notebook, self._statements):
            self.findings.add("other", number, text)
        return self.findings

    def _add(self, kind: str, document: Handed, text: str) -> None:
        self.findings.add(kind, document.number, text)

    def _judge(self, document: Handed, receiver: str) -> str:
        """Compare the statements about one document for one receiver; return the end by the sender's ledger."""
        stories = [
            story for story in self._statements.by_number.get(document.number, [])
            if story.target == receiver or not (story.accepted or story.received)
        ]  # fmt: skip
        messages = [story for story in stories if story.accepted]
        receipts = [each for each in self._notebook.receipts[document.number] if each.receiver == receiver]
        end, story = self._end(document, receiver, messages, stories)
        self._judge_end(document, receiver, end, story)
        self._judge_receipts(document, receiver, receipts, end, messages)
        self._judge_told(document, receiver, end)
        for each in stories:
            self._judged.add(each.lk0)
            self._judge_verdict(document, receiver, each, receipts, is_last=each is story)
        return end

    def _end(
        self, document: Handed, receiver: str, messages: list[MessageStory], stories: list[MessageStory]
    ) -> tuple[str, MessageStory | None]:
        """Return the end at the sender: an outcome, OPEN, REFUSED or ABSENT; and the message that has it."""
        if not messages:
            withdrawn = [story for story in stories if CANCELLED in story.ends]
            if withdrawn:
                return CANCELLED, withdrawn[-1]
            refused = [story for story in stories if story.refused]
            end = CANCELLED if document.ends == {CANCELLED} else REFUSED  # a withdrawn submission
            return (end, refused[-1]) if refused else (ABSENT, None)
        *earlier, last = messages
        if earlier:
            self._resealed.add(document.number)
            if not self._is_lost_at_sender(document) and not all(
                each.ends == [REJECTED] and each.reason.startswith(RESEALED) for each in earlier
            ):
                names = [each.lk0 for each in messages]
                self._add("duplicated", document, f"accepted {len(messages)} times for {receiver}: {names}")
        if last.accepted > 1:
            self._add("duplicated", document, f"{last.lk0} has {last.accepted} lines ACCEPTED")
        if len(last.ends) > 1 and last.ends not in ([REJECTED, DELIVERED], [DROPPED, DELIVERED]):
            self._add("false_outcomes", document, f"{last.lk0} ended {last.ends}")
        return (last.ends[-1] if last.ends else OPEN), last

    def _judge_end(self, document: Handed, receiver: str, end: str, story: MessageStory | None) -> None:
        if document.certainty == REFUSED and not self._is_refusal_expected(document, receiver, story):
            self._add("false_outcomes", document, f"refused for no reason in the notebook: {document.refusal}")
        if end in document.possible or self._is_explained(document, receiver, end, story):
            return
        if self._is_lost_at_sender(document) and end in (ABSENT, UNKNOWN, DELIVERED):
            return
        if end == LOST and not document.ack2 and self._is_lost_at_receiver(document, receiver):
            return  # the sender keeps no body for a receiver that has lost its record
        is_lost = document.certainty == CONFIRMED and end in (ABSENT, LOST)
        kind = "lost" if is_lost else "false_outcomes"
        why = story.reason if story is not None else ""
        self._add(
            kind, document, f"ended {end} {why} for {receiver}; {document.certainty}: {sorted(document.possible)}"
        )

    def _is_explained(self, document: Handed, receiver: str, end: str, story: MessageStory | None) -> bool:
        """Whether the kind of the document, or a fault in its time, permits an end that it does not expect."""
        told = [story.reason, *story.refused] if story is not None else []
        reasons = " ".join([*told, document.refusal])
        if "unknown" in document.traits and end in (REFUSED, REJECTED, ABSENT):
            return UnknownTarget.code in reasons
        if end not in (REFUSED, REJECTED, UNKNOWN, ABSENT):
            return False
        return any(code in reasons for each in self._permitted_outcomes(document, receiver) for code in each.codes)

    def _is_refusal_expected(self, document: Handed, receiver: str, story: MessageStory | None) -> bool:
        """Whether a door was right to refuse a document."""
        if "rollback" in document.traits or ("late" in document.traits and Expired.code in document.refusal):
            return True
        return self._is_explained(document, receiver, REFUSED, story)

    def _permitted_outcomes(self, document: Handed, receiver: str) -> list[PermittedOutcome]:
        receipts = self._notebook.receipts[document.number]
        last_at = max(each.at for each in receipts) if receipts else float("inf")
        return [each for each in self._notebook.permitted if each.is_for(document, receiver, last_at)]

    def _judge_receipts(
        self, document: Handed, receiver: str, receipts: list[NotedReceipt], end: str, messages: list[MessageStory]
    ) -> None:
        if self._is_lost_at_receiver(document, receiver):
            return  # it may be given again, or not have arrived again
        self._judge_arrival(document, receiver, receipts, end)
        self._judge_repeats(document, receiver, receipts, messages)
        recorded = {story.lk0 for story in messages if story.received}
        names = {receipt.lk0 for receipt in receipts}
        if names - recorded and not self._is_lost_at_sender(document):
            self._add("other", document, f"given to {receiver} without a record: {sorted(names - recorded)}")
        if any(receipt.digest != document.digest for receipt in receipts):
            self._add("other", document, f"given to {receiver} with other bytes")
        for fault in {receipt.fault for receipt in receipts if receipt.fault}:
            self._add("other", document, f"given to {receiver} with other attributes: {fault}")

    def _judge_arrival(self, document: Handed, receiver: str, receipts: list[NotedReceipt], end: str) -> None:
        is_lost_at_sender = self._is_lost_at_sender(document)
        is_expected = document.possible == {DELIVERED} and end not in (REFUSED, REJECTED, UNKNOWN)
        if end == DELIVERED and not receipts:
            self._add("lost", document, f"DELIVERED, and never given to {receiver}")
        elif is_expected and not receipts and not is_lost_at_sender:
            self._add("lost", document, f"confirmed, and never given to {receiver}")
        acknowledged = [receipt for receipt in receipts if receipt.answer != "requeue"]
        if receipts and not acknowledged and len(receipts) < ATTEMPTS_MIN:
            self._add("lost", document, f"returned by {receiver}, and not given again")
        is_false = end in (CANCELLED, REJECTED, DROPPED, *NEVER) and document.certainty != IN_DOUBT
        if receipts and is_false and not (end == ABSENT and is_lost_at_sender):
            self._add("false_outcomes", document, f"{end}, but given to {receiver}")

    def _judge_repeats(
        self, document: Handed, receiver: str, receipts: list[NotedReceipt], messages: list[MessageStory]
    ) -> None:
        names = sorted({receipt.lk0 for receipt in receipts})
        if len(names) > 1 and not self._is_lost_at_sender(document):
            self._add("duplicated", document, f"given to {receiver} as {names}")
        if any(len(story.received) > 1 or count > 1 for story in messages for count in story.received.values()):
            self._add("duplicated", document, f"recorded more than once: {[story.received for story in messages]}")
        seen: set[str] = set()
        for receipt in receipts:
            if receipt.lk0 in seen and not receipt.flagged:
                self._add("duplicated", document, f"given to {receiver} again without a mark")
            seen.add(receipt.lk0)

    def _judge_told(self, document: Handed, receiver: str, end: str) -> None:
        """Compare what the door told the sending application with the ledger."""
        if self._is_lost_at_sender(document):
            return  # told before the restore, or not at all
        told = document.outcomes.get(receiver, [])
        status = document.outcomes.get("status", [])
        if status:
            told = status if len(document.receivers) == 1 else []
        elif len(document.receivers) > 1 and not told:
            told = document.outcomes.get(document.target, [])
        if document.number in self._resealed:
            told = told[-1:]
        must_tell = end not in (OPEN, *NEVER) and (document.save_fwd == 3 or document.ack2)
        if must_tell and not told and not (status and len(document.receivers) > 1):
            self._add("false_outcomes", document, f"{end} for {receiver}, and its application was not told")
        # The node takes a document in pieces before it can decide whether it accepts it.
        admitted = ("REFUSED", "UNKNOWN", *([REJECTED] if "large" in document.traits else []))
        if told and told[-1] != end and not (told[-1] in admitted and end in NEVER) and end != OPEN:
            self._add("false_outcomes", document, f"told {told}, but {end} for {receiver}")

    def _judge_verdict(
        self, document: Handed, receiver: str, story: MessageStory, receipts: list[NotedReceipt], *, is_last: bool
    ) -> None:
        row = self._statements.verdicts.get(story.lk0)
        if not self._statements.verdicts:
            return
        predicted = self._predicted(document, story, receipts, is_last=is_last)
        if (lost := self._verdicts_of_lost(document, receiver, story)) is not None:
            predicted = lost
        for outcome in self._permitted_outcomes(document, receiver):
            predicted |= outcome.verdicts | ({ABSENT} if not story.accepted else set())
        verdict = row.verdict if row is not None else ABSENT
        if verdict in predicted:
            return
        if row is not None and row.finding == "hub_has_no_trace" and self._was_hub_killed(document, receipts):
            return
        finding = row.finding if row is not None else ""
        text = f"{verdict} {finding} for {story.lk0} to {receiver}; predicted {sorted(predicted)}"
        self._add("verdict_disagreements", document, text)

    def _predicted(
        self, document: Handed, story: MessageStory, receipts: list[NotedReceipt], *, is_last: bool
    ) -> set[str]:
        """Return the verdicts that the notebook admits for a message. ``is_last``: it was not sealed again."""
        mine = [receipt for receipt in receipts if receipt.lk0 == story.lk0]
        if mine:
            returned = len(mine) >= ATTEMPTS_MIN and all(receipt.answer == "requeue" for receipt in mine)
            given = {"PARKED"} if mine[-1].answer == "reject" or returned else {"MATCHED"}
            # Classes 1 and 2 are given up after some inquiries, also if the document arrives later (rule N22).
            gave_up = document.save_fwd < 3 and any(UNKNOWN in told for told in document.outcomes.values())
            return given | ({"ACK_NOT_RETURNED"} if gave_up else set())
        if not is_last:  # sealed again, or a refused attempt before the accepted one
            return {"REFUSED"}
        told = {outcome for outcomes in document.outcomes.values() for outcome in outcomes}
        if document.certainty == REFUSED or "unknown" in document.traits:
            return {"REFUSED", ABSENT}
        if document.save_fwd < 3:
            # A sender whose notice of a drop was lost gives up after some inquiries.
            return {"DROPPED_BY_POLICY"} if DROPPED in told else {"LOST_BEST_EFFORT", "DROPPED_BY_POLICY"}
        if document.ends == {CANCELLED} or CANCELLED in told:
            return {"MATCHED", "REFUSED"} if not story.accepted else {"MATCHED"}
        if REJECTED in told and REJECTED in document.ends:
            return {"REFUSED"}
        return {"MATCHED"} if document.certainty == CONFIRMED else {"MATCHED", ABSENT}

    def _verdicts_of_lost(self, document: Handed, receiver: str, story: MessageStory) -> set[str] | None:
        """Return the verdicts about a message of which a restored store has lost lines; None if none has."""
        at_sender, at_receiver = self._is_lost_at_sender(document), self._is_lost_at_receiver(document, receiver)
        if not at_sender and not at_receiver:
            return None
        is_recorded = bool(RECORDS & set(story.at_receiver))
        if at_sender and not story.accepted:
            return {"UNKNOWN_ORIGIN"} if is_recorded else {"UNKNOWN_ORIGIN", "REFUSED", ABSENT}
        if at_sender and story.ends == [UNKNOWN]:
            return {"ACK_NOT_RETURNED"} if is_recorded else {"NOT_DELIVERED", "LOST_BEST_EFFORT"}
        if at_receiver and story.ends == [LOST]:
            return {"NOT_DELIVERED"}
        is_told = {DELIVERED, CANCELLED} & set(story.ends) or Event.RELEASED.name in story.hub
        if at_receiver and is_told and not is_recorded:
            return {"STATE_CONTRADICTION"}
        return {"MATCHED", "PARKED", "REFUSED", "LOST_BEST_EFFORT", "DROPPED_BY_POLICY", "ACK_NOT_RETURNED"}

    def _is_lost_at_sender(self, document: Handed) -> bool:
        return any(each.is_sender_of(document) for each in self._notebook.restores)

    def _is_lost_at_receiver(self, document: Handed, receiver: str) -> bool:
        return any(each.is_receiver_of(document, receiver) for each in self._notebook.restores)

    def _is_lost(self, document: Handed) -> bool:
        """Whether a restored store, of any institution, may have lost what it knew of a document."""
        at_receiver = (self._is_lost_at_receiver(document, receiver) for receiver in document.receivers)
        return self._is_lost_at_sender(document) or any(at_receiver)

    def _was_hub_killed(self, document: Handed, receipts: list[NotedReceipt]) -> bool:
        end = max([document.answered_at, *(receipt.at for receipt in receipts)])
        outages = self._notebook.hub_outages
        return any(began - UNWRITTEN_S <= end and document.handed_at <= ended + UNWRITTEN_S for began, ended in outages)

    def _judge_batches(self) -> None:
        batches: dict[int, set[bool]] = defaultdict(set)
        for document in self._notebook.documents.values():
            if document.batch and not self._is_lost_at_sender(document):
                is_known = bool([s for s in self._statements.by_number.get(document.number, []) if s.accepted])
                batches[document.batch].add(is_known)
        for first, known in batches.items():
            if len(known) > 1:
                self.findings.add("other", first, "only a part of its transaction was accepted")

    def _judge_order(self) -> None:
        first: dict[tuple[str, str, str], list[tuple[float, int]]] = defaultdict(list)
        last: dict[tuple[str, str, str], list[tuple[float, int]]] = defaultdict(list)
        for document in self._notebook.documents.values():
            if not document.order_key or document.number in self._resealed or self._is_lost(document):
                continue
            for receiver in document.receivers:
                receipts = [each for each in self._notebook.receipts[document.number] if each.receiver == receiver]
                to = receiver if document.order_key == "fixed" else receiver.partition("/")[0]
                if receipts:
                    lane = (document.source, document.order_key, to)
                    first[lane].append((receipts[0].at, document.number))
                    last[lane].append((receipts[-1].at, document.number))
        for ways in (first, last):
            for key, arrivals in ways.items():
                for (_, before), (_, after) in _falling(sorted(arrivals)):
                    self.findings.add("reordered", after, f"{key}: {after} came after {before}")

    def _judge_rest(self) -> None:
        for text in self._notebook.alien:
            self.findings.add("other", 0, text)
        for lk0, row in self._statements.verdicts.items():
            story = self._statements.stories.get(lk0)
            is_piece = story is not None and story.is_piece
            if lk0 in self._judged or (is_piece and row.verdict == "MATCHED"):
                continue
            is_lost = any(
                lk0 in each.lk0s or (story is not None and story.number in each.numbers)
                for each in self._notebook.restores
            )
            if is_lost and (is_piece or row.finding == "not_at_sender"):  # only the hub knows it, without its number
                continue
            if is_piece and row.finding == "hub_has_no_trace" and self._notebook.hub_outages:
                continue
            if story is not None and is_piece and self._is_piece_permitted(story, row.verdict):
                continue
            text = story.described() if story is not None else lk0
            number = story.number if story is not None else 0
            self.findings.add("verdict_disagreements", max(number, 0), f"{row.verdict} {row.finding} for {text}")

    def _is_piece_permitted(self, story: MessageStory, verdict: str) -> bool:
        """Whether a fault permits the end of a piece, which has no row in the notebook, and so no time."""
        source = NAMES.get(str(parse_lk0(story.lk0).node), "")
        return any(
            each.is_between(source, story.target) and verdict in each.verdicts and story.reason.startswith(each.codes)
            for each in self._notebook.permitted
        )

    def _judge_missing(self) -> None:
        """Compare what restored nodes say that they lack with the lines that their stores have lost."""
        for name, listed in self._statements.missing.items():
            restores = [each for each in self._notebook.restores if each.name == name]
            stories = [self._statements.stories.get(lk0) for lk0 in sorted({lk0 for r in restores for lk0 in r.lk0s})]
            own = f"{restores[0].address}."
            lost = [
                story for story in stories
                if story is not None and not story.is_piece
                and not (story.accepted if story.lk0.startswith(own) else name in story.received)
            ]  # fmt: skip
            for story in lost:
                # The partner has noted the end, or has recorded it.
                is_known = story.received if story.lk0.startswith(own) else story.ends[-1:] == [DELIVERED]
                if is_known and story.lk0 not in listed:
                    self.findings.add("other", story.number, f"{name} does not list {story.described()} as missing")
            for lk0 in listed - {story.lk0 for story in lost}:
                self.findings.add("other", 0, f"{name} lists {lk0} as missing, and has not lost it")


def _falling(arrivals: list[tuple[float, int]]) -> Iterable[tuple[tuple[float, int], tuple[float, int]]]:
    """Yield each arrival with a smaller number than the one before it, with the largest number before it."""
    largest = (0.0, 0)
    for arrival in arrivals:
        if arrival[1] < largest[1]:
            yield largest, arrival
        else:
            largest = arrival
