"""Lists of documents and figures of the queues, fast for queues of any length.

Figures come from the census, and a page reads a bounded number of rows.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

from msgspec import Meta
from msgspec.structs import replace

from semq.access_rights import AccessRole
from semq.answers.messages import MessagePage, MessageRow, OldestDocument, QueueCensus, StuckSums, StuckText, Sums
from semq.engine.people.stuck import StuckCause, is_overdue, stuck_cause
from semq.service.access import inbox_name
from semq.service.errors import BadArguments
from semq.service.large_documents import with_sizes
from semq.service.operations.arguments import Arguments, Text
from semq.service.operations.census import Census
from semq.service.operations.operation import look
from semq.service.operations.ports import OperatedNode
from semq.store.views.census import CensusGroup
from semq.store.views.failed import FAILED, is_failed, with_errors
from semq.store.views.pages import Subset, search_page
from semq.store.views.selection import Order, Search
from semq.store.views.stuck import candidates
from semq.umx_t.status import AppStatus

PAGES_MAX = 10  # calls of ``search_page`` for one page
ROWS_READ_MAX = 100_000  # compared rows after which ``search_page`` is not called again
# StuckCause | filter of the search for its rows
NARROWED: dict[StuckCause, dict[str, object]] = {
    StuckCause.HELD: {"mark": "held"},
    StuckCause.UNREADABLE: {"mark": "held"},
    StuckCause.RETURNED: {"mark": "held"},
    StuckCause.NEVER_RECORDED: {"mark": "parked"},
    StuckCause.GIVEN_UP: {"mark": "void"},
    StuckCause.REFUSED: {"side": "outbound"},
    StuckCause.CANNOT_OPEN: {"state": "REJECTED"},
    StuckCause.PARKED: {"state": "PARKED"},
    StuckCause.SUBMISSION_REFUSED: {"side": "submitted"},
    StuckCause.SUBMISSION_WAITS: {"side": "submitted"},
    StuckCause.PIECES_LEFT: {"side": "submitted"},
}
NOTHING: MessagePage = {"rows": [], "next": None, "looked_at": 0}
AnyKey = TypeVar("AnyKey")


class ListMessages(Arguments, Search, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The selection of documents, and the page."""


class ListStuck(ListMessages, frozen=True, kw_only=True):
    """The selection of stuck documents, and the page; the oldest come first."""

    order: Order = "oldest"
    cause: Annotated[Text | None, Meta(description="Only documents with this cause, for instance HELD.")] = None


class CountMessages(Arguments, frozen=True, kw_only=True):
    """How new the figures must be."""

    fresh: Annotated[bool, Meta(description="Count now; otherwise the figures may be some minutes old.")] = False


class OverviewOperations:
    """The handlers of ``OVERVIEW``."""

    def __init__(self, node: OperatedNode) -> None:
        self._node = node

    async def figures(self, arguments: CountMessages) -> QueueCensus:
        """Count documents by state, open ones by pair and inbox; also pieces, submissions, failed and stuck ones.

        ``oldest`` is the oldest document that has not ended: the time since which it waits, and where. ``as_of`` is 0
        while the first count is under way.
        """
        census = await self._node.census.counted_now() if arguments.fresh else await self._node.census.newest()
        sent: dict[str, int] = defaultdict(int)
        received: dict[str, int] = defaultdict(int)
        pairs: dict[tuple[str, str], Sums] = {}
        inboxes: dict[str, Sums] = {}
        pieces: dict[str, Sums] = {side: {"rows": 0, "bytes": 0} for side in ("outbound", "inbound")}
        for group in census.groups:
            if group["piece"]:
                pieces[group["side"]]["rows"] += group["rows"]
                pieces[group["side"]]["bytes"] += group["bytes"]
                continue
            if group["side"] == "inbound":
                received[group["app_status"]] += group["rows"]
                if group["app_status"] == AppStatus.NEW.name:
                    _add(inboxes, group["user"], group)
                continue
            sent[str(group["outcome"] or group["ss_status"])] += group["rows"]
            if group["outcome"] is None:
                _add(pairs, (group["source"], group["target"]), group)
        stuck = sum(group["rows"] for group in census.groups if group["cause"])
        return {
            "as_of": census.as_of,
            "sent": sent,
            "received": received,
            "submitted": census.submitted,
            "pieces": pieces,
            "failed": _count_failed(census),
            "stuck": stuck + census.late_in_pieces,
            "pairs": [
                {"source": source, "target": target, "online": census.presence[target], **pair}
                for (source, target), pair in sorted(pairs.items())
            ],
            "inboxes": [{"inbox": inbox_name(user), **inbox} for user, inbox in sorted(inboxes.items())],
            "oldest": _oldest(pairs, inboxes, census.submitted_since),
        }

    async def causes(self, arguments: Arguments) -> StuckSums:
        """Count stuck documents by cause, partner and queue, the largest numbers first; submissions by cause only."""
        census = await self._node.census.newest()
        sums: dict[tuple[str, str, str], Sums] = {}
        for group in census.groups:
            if group["cause"]:
                partner = group["source" if group["side"] == "inbound" else "target"]
                empty: Sums = {"rows": 0, "bytes": 0, "oldest_at": group["oldest_at"]}
                sum_ = sums.setdefault((group["cause"], partner, group["side"]), empty)
                sum_["rows"] += group["rows"]
                sum_["bytes"] += group["bytes"]
                sum_["oldest_at"] = min(sum_["oldest_at"] or group["oldest_at"], group["oldest_at"])
        rows: list[Sums] = [
            {"cause": cause, "meaning": StuckCause[cause].meaning, "partner": partner, "side": side, **sum_}
            for (cause, partner, side), sum_ in sums.items()
        ]
        for count, cause in (
            (census.submitted["refused"], StuckCause.SUBMISSION_REFUSED),
            (census.submitted["waiting"], StuckCause.SUBMISSION_WAITS),
            (census.late_in_pieces, StuckCause.PIECES_LEFT),
        ):
            if count:
                facts: Sums = {"rows": count, "bytes": 0, "oldest_at": None, "side": "submitted"}
                rows.append({"cause": cause.name, "meaning": cause.meaning, "partner": "", **facts})
        return {"as_of": census.as_of, "rows": sorted(rows, key=lambda row: row["rows"], reverse=True)}

    async def stuck(self, arguments: ListStuck) -> MessagePage:
        """Return a page of the stuck documents, each with its cause and next step."""
        surroundings = self._node.surroundings()
        wanted: ListStuck | None = arguments
        only = None
        if arguments.cause:
            only = StuckCause.__members__.get(arguments.cause.upper())
            if only is None:
                raise BadArguments(
                    "There is no cause of this name; stuck.causes lists the present causes.", cause=arguments.cause[:80]
                )
            wanted = _narrowed(arguments, NARROWED.get(only, {}))

        def with_cause(row: MessageRow) -> MessageRow | None:
            cause = stuck_cause(row, surroundings)
            if cause is None or only not in (None, cause):
                return None
            return {**row, "stuck": described_cause(cause, row)}

        subset = candidates(surroundings.now_ms - surroundings.overdue_ms)
        return NOTHING if wanted is None else await self._search(wanted, subset, with_cause)

    async def failed(self, arguments: ListMessages) -> MessagePage:
        """Return a page of failed documents and refused submissions, each with its error.

        ``of``: number of all failed messages and refused submissions of the node, as in ``queue.census`` at the time
        ``as_of``.
        """
        census = await self._node.census.newest()
        page = await self._search(arguments, FAILED)
        rows = await self._node.store.execute(with_errors, page["rows"])
        return {**page, "rows": rows, "as_of": census.as_of, "of": _count_failed(census)}

    async def messages(self, arguments: ListMessages) -> MessagePage:
        """Return a page of documents in the queues, with ``next``, the arguments of the following page.

        ``next`` is absent (null) on the last page only; a page may have fewer rows than ``limit``, or none.
        """
        page, surroundings = await self._search(arguments), self._node.surroundings()
        if arguments.ended:
            return page
        return {**page, "rows": [{**row, "overdue": is_overdue(row, surroundings)} for row in page["rows"]]}

    async def _search(
        self,
        wanted: Search,
        subset: Subset | None = None,
        shown: Callable[[MessageRow], MessageRow | None] | None = None,
    ) -> MessagePage:
        """Return a page of the rows for which ``shown`` returns a row."""
        if wanted.ended and subset is not None:
            raise BadArguments("Only msg.list lists ended documents.", ended=True)
        rows: list[MessageRow] = []
        looked_at, next_page = 0, None
        for _ in range(PAGES_MAX):
            page = await self._node.store.execute(search_page, replace(wanted, limit=wanted.limit - len(rows)), subset)
            rows += [row for each in page["rows"] if (row := shown(each) if shown else each) is not None]
            looked_at, next_page = looked_at + page["looked_at"], page["next"]
            if next_page is None or len(rows) >= wanted.limit or looked_at >= ROWS_READ_MAX or wanted.ended:
                break
            wanted = replace(wanted, **next_page)
        if not wanted.ended:
            rows = await with_sizes(self._node.store, rows)
        return {"rows": rows, "next": next_page, "looked_at": looked_at}


OVERVIEW = (
    look("msg.list", AccessRole.VIEWER, ListMessages, OverviewOperations.messages),
    look("stuck.list", AccessRole.VIEWER, ListStuck, OverviewOperations.stuck),
    look("stuck.causes", AccessRole.VIEWER, Arguments, OverviewOperations.causes, "the console and the HTTP API"),
    look("failed.list", AccessRole.VIEWER, ListMessages, OverviewOperations.failed),
    look("queue.census", AccessRole.VIEWER, CountMessages, OverviewOperations.figures),
)


def _narrowed(wanted: ListStuck, narrower: Mapping[str, Any]) -> ListStuck | None:
    """Return the selection with a narrower filter; None if no row can fit both."""
    for name, value in narrower.items():
        given = getattr(wanted, name) or ""
        if given.upper() not in ("", "ALL", value.upper()) and (given, value) != ("outbound", "submitted"):
            return None
    return replace(wanted, **narrower)


def described_cause(cause: StuckCause, row: Mapping[str, object]) -> StuckText:
    """Return a cause and the next step for a row."""
    return {"cause": cause.name, "meaning": cause.meaning, "next_step": cause.next_step(row)}


def _add(sums: dict[AnyKey, Sums], key: AnyKey, group: CensusGroup) -> None:
    sum_ = sums.setdefault(key, {"rows": 0, "bytes": 0, "late": 0, "oldest_at": group["oldest_at"]})
    sum_["rows"] += group["rows"]
    sum_["bytes"] += group["bytes"]
    sum_["late"] += group["rows"] if group["late"] else 0
    sum_["oldest_at"] = min(sum_["oldest_at"] or group["oldest_at"], group["oldest_at"])


def _oldest(
    pairs: Mapping[tuple[str, str], Sums],
    inboxes: Mapping[str, Sums],
    submitted_since: int | None,
) -> OldestDocument | None:
    """Return the oldest document that has not ended: the time since which it waits, and where."""
    waits = [(pair["oldest_at"] or 0, f"for {target}") for (_, target), pair in pairs.items()]
    waits += [(inbox["oldest_at"] or 0, f"in {inbox_name(user)}") for user, inbox in inboxes.items()]
    waits += [(submitted_since, "submitted by SQL, scheduled or in pieces")] if submitted_since is not None else []
    if not waits:
        return None
    at, where = min(waits)
    return {"at": at, "where": where}


def _count_failed(census: Census) -> int:
    rows = sum(group["rows"] for group in census.groups if is_failed(group) and not group["piece"])
    return int(rows) + census.submitted["refused"]
