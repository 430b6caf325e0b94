"""Operations on large queues: ``queue.census``, ``stuck.causes``, ``stuck.page``, ``failed.page`` and ``msg.search``.

Answers are fast for queues of any length: figures come from the census, and a page reads a bounded number of rows.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from msgspec import Meta

from semq.access_rights import AccessRole
from semq.engine.people.stuck import StuckCause, is_overdue, stuck_cause
from semq.service.access import inbox_name
from semq.service.errors import BadArguments
from semq.service.large_documents import with_sizes
from semq.service.operations.arguments import (
    INT64_MAX,
    Arguments,
    DataType,
    Institution,
    Key,
    Limit,
    Moment,
    OfPieces,
    Partner,
    Text,
)
from semq.service.operations.census import Census, OverviewNode, SharedCensus
from semq.service.operations.operation import look
from semq.store.views import submissions
from semq.store.views.failed import errors_of, is_failed
from semq.store.views.pages import Search, rows_of, search_page
from semq.umx_t.status import AppStatus

SUBMISSIONS_MAX = 500  # submissions compared for a page
PAGES_MAX = 5  # calls of ``search_page`` for one page of ``stuck.page``
ROWS_READ_MAX = 50_000  # compared rows after which ``search_page`` is not called again
FILTERS = ("side", "partner", "type", "key", "code")  # arguments of failed.page
# StuckCause | filter of the search for its rows; without an entry, the late rows are searched.
NARROWED: dict[StuckCause, dict[str, Any]] = {
    StuckCause.HELD: {"mark": "held"},
    StuckCause.UNREADABLE: {"mark": "held"},
    StuckCause.RETURNED: {"mark": "held"},
    StuckCause.NEVER_RECORDED: {"mark": "parked"},
    StuckCause.GIVEN_UP: {"mark": "void"},
    StuckCause.REFUSED: {"side": "outbound"},
    StuckCause.CANNOT_OPEN: {"state": "REJECTED"},
    StuckCause.PARKED: {"state": "PARKED"},
}
CONSOLE = "the console and the HTTP API"
AnyKey = TypeVar("AnyKey")
RowNumber: TypeAlias = Annotated[int, Meta(ge=0, le=INT64_MAX)]


class SelectFailed(Arguments, frozen=True, kw_only=True):
    """Filters of failed messages, and the page."""

    side: Annotated[Literal["all", "outbound", "inbound"] | None, Meta(description="Queue; both by default.")] = None
    partner: Partner | None = None
    type: DataType | None = None
    key: Key | None = None
    code: Annotated[Text | None, Meta(description="Error code of the reason.")] = None
    after: Annotated[int, Meta(ge=0, le=INT64_MAX, description="``next`` of the page before.")] = 0
    limit: Limit = 50


class SelectMessages(Arguments, frozen=True, kw_only=True):
    """Filters of messages, and the page."""

    side: Annotated[Literal["all", "outbound", "inbound"] | None, Meta(description="Queue; both by default.")] = None
    state: Annotated[Text | None, Meta(description="Name of a status or an outcome.")] = None
    partner: Annotated[Partner | None, Meta(description="The institution at the other end; at a hub the target.")] = (
        None
    )
    source: Annotated[Institution | None, Meta(description="At a hub: the institution that sent the message.")] = None
    type: DataType | None = None
    key: Key | None = None
    code: Annotated[Text | None, Meta(description="Error code of the reason.")] = None
    mark: Annotated[Literal["held", "parked", "void"] | None, Meta(description="Mark of a sent message.")] = None
    since_ms: Annotated[Moment | None, Meta(description="Earliest time, in milliseconds since 1970 UTC.")] = None
    until_ms: Annotated[
        Moment | None, Meta(description="Exclusive end of the period, in milliseconds since 1970 UTC.")
    ] = None
    outbound: Annotated[RowNumber | None, Meta(description="``next.outbound`` of the page before.")] = None
    inbound: Annotated[RowNumber | None, Meta(description="``next.inbound`` of the page before.")] = None
    limit: Limit = 50
    pieces: OfPieces = False

    def given(self) -> dict[str, Any]:
        """Return the arguments that are neither None nor empty."""
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: value for name, value in values.items() if value not in (None, "")}


class SearchMessages(SelectMessages, frozen=True, kw_only=True):
    """The selection and the order of messages."""

    order: Annotated[Literal["newest", "oldest"], Meta(description="The order of the messages.")] = "newest"


class SelectStuck(SelectMessages, frozen=True, kw_only=True):
    """The selection of stuck messages with one cause."""

    cause: Annotated[Text, Meta(min_length=1, description="Name of a cause, for instance HELD.")]


class OverviewOperations:
    """The handlers of ``OVERVIEW``."""

    def __init__(self, node: OverviewNode) -> None:
        self._node = node
        self._census = SharedCensus(node)

    async def figures(self, arguments: Arguments) -> dict[str, Any]:
        """Count messages by state, open ones by pair and by inbox; also pieces, submissions, failed and stuck messages.

        ``oldest`` is the oldest document that has not ended: the time since which it waits, and where.
        """
        census = await self._census.newest()
        sent: dict[str, int] = defaultdict(int)
        received: dict[str, int] = defaultdict(int)
        pairs: dict[tuple[str, str], dict[str, int]] = {}
        inboxes: dict[str, dict[str, int]] = {}
        pieces = {side: {"rows": 0, "bytes": 0} for side in ("outbound", "inbound")}
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
            sent[group["outcome"] or group["ss_status"]] += group["rows"]
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

    async def causes(self, arguments: Arguments) -> dict[str, Any]:
        """Count stuck messages by cause, partner and queue, the largest numbers first; submissions by cause only."""
        census = await self._census.newest()
        sums: dict[tuple[str, str, str], dict[str, Any]] = {}
        for group in census.groups:
            if group["cause"]:
                partner = group["source" if group["side"] == "inbound" else "target"]
                empty = {"rows": 0, "bytes": 0, "oldest_at": group["oldest_at"]}
                sum_ = sums.setdefault((group["cause"], partner, group["side"]), empty)
                sum_["rows"] += group["rows"]
                sum_["bytes"] += group["bytes"]
                sum_["oldest_at"] = min(sum_["oldest_at"], group["oldest_at"])
        rows = [
            {"cause": cause, "meaning": StuckCause[cause].meaning, "partner": partner, "side": side, **sum_}
            for (cause, partner, side), sum_ in sums.items()
        ]
        for count, cause in (
            (census.submitted["refused"], StuckCause.SUBMISSION_REFUSED),
            (census.submitted["waiting"], StuckCause.SUBMISSION_WAITS),
            (census.late_in_pieces, StuckCause.PIECES_LEFT),
        ):
            if count:
                facts = {"rows": count, "bytes": 0, "oldest_at": None, "side": "submitted"}
                rows.append({"cause": cause.name, "meaning": cause.meaning, "partner": "", **facts})
        return {"as_of": census.as_of, "rows": sorted(rows, key=lambda row: row["rows"], reverse=True)}

    async def stuck(self, arguments: SelectStuck) -> dict[str, Any]:
        """Return a page of the stuck messages with one cause, the oldest first; of submissions, the newest first."""
        surroundings = self._node.surroundings()
        cause = StuckCause.__members__.get(arguments.cause.upper())
        if cause is None:
            raise BadArguments(
                "There is no cause of this name; stuck.causes lists the present causes.", cause=arguments.cause[:80]
            )
        if cause in (StuckCause.SUBMISSION_REFUSED, StuckCause.SUBMISSION_WAITS, StuckCause.PIECES_LEFT):
            return await self._submitted(arguments, cause)
        narrowed = NARROWED.get(cause, {"until_ms": surroundings.now_ms - surroundings.overdue_ms})
        given = arguments.given()
        del given["cause"]
        wanted = Search(**(narrowed | given | {"order": "oldest"}))
        return await self._search_cause(wanted, cause)

    async def _submitted(self, wanted: SelectStuck, cause: StuckCause) -> dict[str, Any]:
        """Return a page of submissions with one cause. ``outbound``: smallest number of the page before."""
        surroundings = self._node.surroundings()
        # A mark belongs to a sent message, a source to a message of a hub; submissions have neither.
        if wanted.side == "inbound" or wanted.mark is not None or wanted.source not in (None, ""):
            return {"rows": [], "next": None, "looked_at": 0}
        listed = await self._submissions(
            wanted,
            refused=cause is StuckCause.SUBMISSION_REFUSED,
            scheduled=False if cause is StuckCause.SUBMISSION_WAITS else None,
            in_pieces=cause is StuckCause.PIECES_LEFT,
            below=wanted.outbound,
        )
        state = (wanted.state or "").upper()
        with_state = [row for row in listed if state in ("", row["state"], row["outcome"])]
        found = [row for row in with_state if stuck_cause(row, surroundings) is cause]
        rows = [row | {"stuck": described_cause(cause, row)} for row in found[: wanted.limit]]
        passed = listed if len(rows) == len(found) else rows
        has_next = len(rows) < len(found) or len(listed) == SUBMISSIONS_MAX
        next_page = {"outbound": passed[-1]["submission"], "inbound": None} if has_next else None
        return {"rows": rows, "next": next_page, "looked_at": len(listed)}

    async def _submissions(self, wanted: Search | SelectStuck, **selected: Any) -> list[dict[str, Any]]:
        """Return submissions that match, newest first. ``selected``: further arguments of ``list_submissions``."""
        return await self._node.store.execute(
            submissions.list_submissions,
            SUBMISSIONS_MAX,
            partner=wanted.partner,
            type_=wanted.type,
            key_=wanted.key,
            code=wanted.code,
            since_ms=wanted.since_ms,
            before_ms=wanted.until_ms,
            **selected,
        )

    async def _search_cause(self, wanted: Search, cause: StuckCause) -> dict[str, Any]:
        surroundings, limit = self._node.surroundings(), wanted.limit
        rows: list[dict[str, Any]] = []
        looked_at, next_page = 0, None
        for _ in range(PAGES_MAX):
            page = await self._node.store.execute(search_page, replace(wanted, limit=limit - len(rows)))
            with_cause = [row for row in page["rows"] if stuck_cause(row, surroundings) is cause]
            rows += [row | {"stuck": described_cause(cause, row)} for row in with_cause]
            looked_at, next_page = looked_at + page["looked_at"], page["next"]
            if next_page is None or len(rows) >= limit or looked_at >= ROWS_READ_MAX:
                break
            wanted = replace(wanted, **next_page)
        return {"rows": rows, "next": next_page, "looked_at": looked_at}

    async def failed(self, arguments: SelectFailed) -> dict[str, Any]:
        """Return a page of failed messages: refused submissions (first page only), sent, received; each newest first.

        ``after``: number of failed messages, without submissions, that earlier pages have passed. ``of`` in the answer:
        number of all failed messages and refused submissions of the node, as in ``queue.census``. Pages reach the
        newest FAILED_MAX messages of each queue. Refused submissions (at most SUBMISSIONS_MAX) do not count for
        ``limit``.
        """
        census = await self._census.newest()
        after, limit = arguments.after, arguments.limit
        given = {name: getattr(arguments, name) for name in FILTERS}
        wanted = Search(**{name: value for name, value in given.items() if value not in (None, "")})
        failed = [(side, number) for side, numbers in census.failed.items() for number in numbers]
        rows: list[dict[str, Any]] = []
        refused = [] if after or wanted.side == "inbound" else await self._refused(wanted)
        while after < len(failed) and len(rows) < limit:
            side = failed[after][0]
            numbers = [number for side_, number in failed[after : after + limit] if side_ == side]
            by_number = {row["id"]: row for row in await self._node.store.execute(rows_of, side, numbers)}
            for number in numbers:  # in the order of the census
                after += 1
                row = by_number.get(number)
                # Since the census, the row may have been deleted, or ``failed.requeue`` applied to it.
                if row is not None and is_failed(row) and _fits(row, wanted):
                    rows.append(row)
                if len(rows) >= limit:
                    break
        rows = await with_sizes(self._node.store, rows)
        errors = await self._node.store.execute(errors_of, [row["lk0"] for row in rows])
        unknown_error = {"error": "", "failed_at": None}
        with_errors = [row | errors.get((row["side"], row["lk0"]), unknown_error) for row in rows]
        next_page = after if after < len(failed) else None
        of = _count_failed(census)
        return {"as_of": census.as_of, "rows": refused + with_errors, "next": next_page, "of": of}

    async def _refused(self, wanted: Search) -> list[dict[str, Any]]:
        rows = await self._submissions(wanted, refused=True)
        return [row | {"error": " ".join(row["reason"] or ())} for row in rows]

    async def search(self, arguments: SearchMessages) -> dict[str, Any]:
        """Return a page of messages in the queues, with ``next``, the arguments of the following page."""
        page = await self._node.store.execute(search_page, Search(**arguments.given()))
        surroundings, rows = self._node.surroundings(), await with_sizes(self._node.store, page["rows"])
        return page | {"rows": [row | {"overdue": is_overdue(row, surroundings)} for row in rows]}


OVERVIEW = (
    look("queue.census", AccessRole.VIEWER, Arguments, OverviewOperations.figures, CONSOLE),
    look("stuck.causes", AccessRole.VIEWER, Arguments, OverviewOperations.causes, CONSOLE),
    look("stuck.page", AccessRole.VIEWER, SelectStuck, OverviewOperations.stuck, CONSOLE),
    look("failed.page", AccessRole.VIEWER, SelectFailed, OverviewOperations.failed, CONSOLE),
    look("msg.search", AccessRole.VIEWER, SearchMessages, OverviewOperations.search, CONSOLE),
)


def described_cause(cause: StuckCause, row: Mapping[str, Any]) -> dict[str, str]:
    """Return a cause and the next step for a row."""
    return {"cause": cause.name, "meaning": cause.meaning, "next_step": cause.next_step(row)}


def _add(sums: dict[AnyKey, dict[str, int]], key: AnyKey, group: Mapping[str, Any]) -> None:
    sum_ = sums.setdefault(key, {"rows": 0, "bytes": 0, "late": 0, "oldest_at": group["oldest_at"]})
    sum_["rows"] += group["rows"]
    sum_["bytes"] += group["bytes"]
    sum_["late"] += group["rows"] if group["late"] else 0
    sum_["oldest_at"] = min(sum_["oldest_at"], group["oldest_at"])


def _oldest(
    pairs: Mapping[tuple[str, str], Mapping[str, int]],
    inboxes: Mapping[str, Mapping[str, int]],
    submitted_since: int | None,
) -> dict[str, Any] | None:
    """Return the oldest document that has not ended: the time since which it waits, and where."""
    waits = [(pair["oldest_at"], f"for {target}") for (_, target), pair in pairs.items()]
    waits += [(inbox["oldest_at"], f"in {inbox_name(user)}") for user, inbox in inboxes.items()]
    waits += [(submitted_since, "submitted by SQL, scheduled or in pieces")] if submitted_since is not None else []
    return dict(zip(("at", "where"), min(waits), strict=True)) if waits else None


def _count_failed(census: Census) -> int:
    rows = sum(group["rows"] for group in census.groups if is_failed(group) and not group["piece"])
    return int(rows) + census.submitted["refused"]


def _fits(row: Mapping[str, Any], wanted: Search) -> bool:
    _, type_, _, key = (*str(row["app_key"]).split("/", 3), "", "", "")[:4]
    partner = row["source"] if row["side"] == "inbound" else str(row["target"]).partition("/")[0]
    code = row["reason"][0] if row["reason"] else ""
    return (
        wanted.side in ("all", row["side"])
        and wanted.partner in (None, partner, partner.removeprefix("1."))
        and wanted.type in (None, type_)
        and key.startswith(wanted.key or "")
        and wanted.code in (None, code)
    )
