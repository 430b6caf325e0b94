"""Operation ``node.missing``: the documents that a node has lost because its store was restored from a backup.

The node asks each partner which documents both have exchanged since the last line of its ledger before its start
(``semq.service.exchanged``), and keeps those of which its own ledger knows nothing. Partners that do not answer are
asked again at each run of the job ``missing``. The list is in memory; with ``since`` it can be made again at any time.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Literal

import msgspec
import structlog
from msgspec import Struct, field

from local_node.link.single_request import VIRTUAL_HOST, request
from local_node.ports import OperatedLocalNode
from semq.access_rights import AccessRole
from semq.answers import OperationAnswer
from semq.answers.status import MissingStatus
from semq.errors import SemqError, Unavailable
from semq.moments import utc_text
from semq.service import exchanged, story
from semq.service.errors import UnknownOperation
from semq.service.exchanged import ExchangedDocument, ExchangedPage, ExchangedQuestion
from semq.service.operations.arguments import Arguments, Moment
from semq.service.operations.operation import look
from semq.store.views.exchanged import is_lost, newest_before, not_recorded
from semq.umx_t.address import is_hub, parse_address
from semq.umx_t.errors import BadLocator
from semq.umx_t.records import Presence
from semq.umx_t.short_name import short_name

JOB, EVERY_S, SOON_S = "missing", 60.0, 1.0
EXCHANGE, PATIENCE_S = "semq.ask", 6.0
FIRST_ROUND_S = 5.0  # wait of the operation for the first answers; less than the time limit of a command
PAGES_MAX = 500  # of one partner in one run of the job
ROWS_KEPT_MAX = 10_000
PAUSE_MAX = 60  # runs of the job
CLOCKS_MS = 600_000  # permitted difference between the clocks of two nodes
OLDER = "its version does not know the question"
NO_LIST = "it has not sent its list of partners since the start of this node"
OFFLINE = "it is not online"
BEING_ASKED = "the questions are still being asked"
NOT_DIALLED = "it can be asked only over a link that this node dials"
log = structlog.get_logger("semq.missing")


class ListMissing(Arguments, frozen=True, kw_only=True):
    """The time of the backup."""

    since: Moment | None = None


class MissingDocument(OperationAnswer, frozen=True, kw_only=True):
    """A document that the store of this node lacks."""

    name: str
    lk0: str
    partner: str  #: the institution at the other end
    lost_as: Literal["receiver", "sender"]  #: receiver: the partner has to submit it again
    at: int  #: ms since 1970, by the clock of the node that knows it: its receipt was noted, or it was recorded
    side: str  #: of that node: sender, receiver or hub
    target: str
    app_key: str  #: empty if that node is the hub
    size: int  #: bytes


class UnansweredPartner(OperationAnswer, frozen=True, kw_only=True):
    """A partner, or the hub, that has not answered yet."""

    node: str
    why: str


class MissingList(OperationAnswer, frozen=True, kw_only=True):
    """The documents that this node lacks, as far as its partners have answered."""

    since: str | None = None  #: time from which the partners were asked; null: they were not
    count: int = 0  #: missing documents, also those that are not listed
    rows: Sequence[MissingDocument] = ()
    unanswered: Sequence[UnansweredPartner] = ()


class PartnerSurvey(Struct):
    """The answers of the partners about the documents since a time."""

    since: int  #: ms since 1970
    rows: dict[str, MissingDocument] = field(default_factory=dict)  #: by LK0: the first ROWS_KEPT_MAX
    count: int = 0  #: of all missing documents
    places: dict[str, str] = field(default_factory=dict)  #: by partner: where its next page begins; empty: all is read
    unanswered: dict[str, str] = field(default_factory=dict)  #: by partner, why
    pauses: dict[str, tuple[int, int]] = field(default_factory=dict)  #: by partner: runs to leave out, now and next
    first_round: asyncio.Event = field(default_factory=asyncio.Event)

    def is_due(self, partner: str) -> bool:
        """Whether to ask a partner in this run of the job: it has more pages, and its pause is over."""
        left, length = self.pauses.get(partner, (0, 0))
        self.pauses[partner] = max(0, left - 1), length
        return not left and self.places.get(partner) != ""

    def note_refusal(self, partner: str, why: str) -> None:
        """Note why a partner did not answer. One that was asked in vain is asked less often."""
        self.unanswered[partner] = why
        if why != OFFLINE:
            length = self.pauses[partner][1]
            self.pauses[partner] = length, min(2 * length + 1, PAUSE_MAX)

    def add(self, row: MissingDocument) -> None:
        """Add a document, unless the survey has it; a partner's answer replaces one of the hub."""
        known = self.rows.get(row.lk0)
        self.count += known is None
        if len(self.rows) < ROWS_KEPT_MAX if known is None else known.side == "hub":
            self.rows[row.lk0] = row

    def status(self) -> MissingStatus:
        """Return what health and status show."""
        return MissingStatus(since=utc_text(self.since), count=self.count, unanswered=len(self.unanswered))


class MissingDocuments:
    """The present survey, its job, and the handler of ``node.missing``."""

    def __init__(self, node: OperatedLocalNode) -> None:
        self._node = node
        self.survey: PartnerSurvey | None = None
        self.seen: dict[str, Presence] = {}  #: by hub or partner: what it has seen of the process before this one

    async def list(self, arguments: ListMissing) -> MissingList:
        """List the documents that partners have exchanged with this node, and that its restored store lacks.

        ``since``: ask anew, about documents since this time. ``unanswered``: partners still to be asked, and why.
        """
        if arguments.since is not None and (self.survey is None or self.survey.since != arguments.since):
            self.survey = PartnerSurvey(arguments.since)
            self._node.clockwork.hasten(JOB)
        survey = self.survey
        if survey is None:
            return MissingList()
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_ROUND_S):
                await survey.first_round.wait()
        unanswered = [UnansweredPartner(node=node, why=why) for node, why in sorted(survey.unanswered.items())]
        if not survey.first_round.is_set():
            unanswered.append(UnansweredPartner(node=str(self._node.address), why=BEING_ASKED))
        rows = sorted(survey.rows.values(), key=lambda row: row.at)
        return MissingList(since=utc_text(survey.since), count=survey.count, rows=rows, unanswered=unanswered)

    async def ask(self) -> None:
        """Ask the partners that have not answered yet. Called by the job."""
        node = self._node
        while self.seen:
            peer, record = self.seen.popitem()
            if await node.store.execute(is_lost, record.last_seen, record.last_seen_at):
                name = short_name(record.last_seen) or record.last_seen
                found = f"{peer} has seen {name} ({utc_text(record.last_seen_at)}), of which the ledger knows nothing"
                node.store.note_missing_commits(f"{found}, so it was restored from a backup")
        if self.survey is None and node.store.missing_commits:
            newest = await node.store.execute(newest_before, node.store.chain.former_line)
            self.survey = PartnerSurvey(max(0, (newest or 0) - CLOCKS_MS))
        survey = self.survey
        if survey is None:
            return
        partners = node.engine.partners
        if not partners.is_listed:
            survey.unanswered = {"hub": NO_LIST}
            node.clockwork.hasten(JOB, SOON_S)
            return
        survey.unanswered.pop("hub", None)
        before = survey.count
        for partner in sorted(partners.allowed):
            if self.survey is survey and survey.is_due(partner):
                await self._ask_partner(survey, partner)
        if (link := node.parts.hub.link) is not None and survey.is_due(str(link.peer)):
            await self._ask_partner(survey, str(link.peer))  # last, because partners know more about each document
        survey.first_round.set()
        if survey.count > before:
            log.error("documents_missing", count=survey.count, since=utc_text(survey.since), text="semq node missing")

    async def _ask_partner(self, survey: PartnerSurvey, partner: str) -> None:
        """Read the remaining pages of a partner, or note why there is no answer."""
        survey.unanswered.pop(partner, None)
        try:
            for _ in range(PAGES_MAX):
                page = await self._page(partner, ExchangedQuestion(survey.since, survey.places.get(partner) or ""))
                await self._compare(survey, partner, page.rows)
                survey.places[partner] = page.next
                if not page.next:
                    return
            survey.unanswered[partner] = "it has more pages"
        except SemqError as error:
            survey.note_refusal(partner, error.text)

    async def _compare(self, survey: PartnerSurvey, partner: str, rows: Sequence[ExchangedDocument]) -> None:
        """Keep the documents of a page of which this node's ledger knows nothing."""
        own = str(self._node.address)
        senders = {"sender": f"{partner}.", "receiver": f"{own}.", "hub": f"{own}."}  # by the side of the partner
        fitting = [row for row in rows if row.lk0.startswith(senders[row.side])]
        lost = await self._node.store.execute(not_recorded, [row.lk0 for row in fitting])
        for row in fitting:
            if row.lk0 in lost:
                other_end = row.target.partition("/")[0] if row.side == "hub" else partner
                name, facts = short_name(row.lk0) or row.lk0, msgspec.structs.asdict(row)
                survey.add(MissingDocument(name=name, partner=other_end, lost_as=LOST_AS[row.side], **facts))

    async def _page(self, partner: str, question: ExchangedQuestion) -> ExchangedPage:
        """Ask a partner, through the hub or directly. Raises Unavailable."""
        node, faults = self._node, list[str]()
        links = node.parts.direct
        direct = links.dial_config_for(parse_address(partner), VIRTUAL_HOST) if links is not None else None
        ways = [] if direct is None else [(direct, partner)]
        if (hub := node.parts.hub.dial_config_for(VIRTUAL_HOST)) is not None:
            is_online = node.engine.partners.online.get(partner) or is_hub(parse_address(partner))
            if not (ways or (is_online and node.engine.uplink.is_up)):
                raise Unavailable(OFFLINE)
            ways.append((hub, "The hub"))
        nonce = node.clock.uuid().hex
        keys = node.sealing.keys if node.sealing is not None else None
        signature = story.sign(keys, exchanged.question_bytes(str(node.address), partner, nonce, question))
        asked = {"partner": partner, "nonce": nonce, "signature": signature, **msgspec.structs.asdict(question)}
        for config, name in ways:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    reply = await request(config, node.clock, EXCHANGE, "exchanged", asked, name)
                return self._read(partner, nonce, question, reply.get("other"))
            except TimeoutError:
                faults.append(f"{name} did not answer within {PATIENCE_S:.0f} s")
            except SemqError as error:
                faults.append(f"{name}: {OLDER}" if UnknownOperation.code in error.text else error.text)
        raise Unavailable("; ".join(faults) or NOT_DIALLED)

    def _read(self, partner: str, nonce: str, question: ExchangedQuestion, other: object) -> ExchangedPage:
        """Return the page in an answer. Raises Unavailable, and the errors of a missing or false signature."""
        answer: Mapping[str, object] = other if isinstance(other, dict) else {}
        if why := str(answer.get("unanswered") or ""):
            raise Unavailable(OLDER if BadLocator.code in why else why)  # it looks for a message without a name
        text = str(answer.get("story")).encode("utf-8", "surrogatepass")
        signed = exchanged.signed_bytes(partner, str(self._node.address), nonce, question, text)
        keys = self._node.sealing.keys if self._node.sealing is not None else None
        story.is_proved(keys, partner, signed, str(answer.get("signature") or ""))
        try:
            return msgspec.json.decode(text, type=ExchangedPage)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Unavailable(f"its answer cannot be read: {error}") from error


# By the side of the partner
LOST_AS: dict[str, Literal["receiver", "sender"]] = {"sender": "receiver", "receiver": "sender", "hub": "sender"}
MISSING = (look("node.missing", AccessRole.VIEWER, ListMissing, MissingDocuments.list),)
