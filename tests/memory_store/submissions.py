"""Submissions in the store in memory: queries and changes of tb_0031_submit and its related tables."""

from collections.abc import Iterator

from msgspec.structs import replace

from semq.store.rows import Submitted
from semq.store.unit import (
    DueSubmissions,
    OpenSubmission,
    RefusedSubmissions,
    SubmittedRows,
    TokenSubmissions,
    Unit,
)
from tests.memory_store.tables import Tables

SubmissionQuery = SubmittedRows | RefusedSubmissions | OpenSubmission | TokenSubmissions | DueSubmissions


def find(tables: Tables, query: SubmissionQuery) -> Iterator[Submitted | tuple[int, int]]:
    """Yield the rows of a query, in the same order as Postgres."""
    rows = sorted(tables.submitted.items())
    match query:
        case RefusedSubmissions(lk0s):
            named = {number: str(refusal.lk0) for number, refusal in tables.refused.items()}
            yield from (replace(row, payload=b"", lk0=named[n]) for n, row in rows if named.get(n) in lk0s)
        case OpenSubmission(number):
            yield from (replace(row, payload=b"") for n, row in rows if n == number and n not in tables.refused)
        case DueSubmissions(now, limit):
            times = sorted((row.not_before, n) for n, row in rows if row.not_before)
            yield from [(n, at) for at, n in times if at <= now][:limit]
            yield from [(n, at) for at, n in times if at > now][:1]
        case TokenSubmissions(tokens):
            open_ = [row for n, row in rows if n not in tables.refused and row.envelope and row.token in tokens]
            yield from (replace(row, payload=b"") for row in open_)
        case SubmittedRows(limit, without, payload_bytes_max, headers_bytes_max):
            open_ = [
                row for n, row in rows if n not in tables.refused and not row.not_before and row.target not in without
            ]
            yield from (_sized(row, payload_bytes_max, headers_bytes_max) for row in open_[:limit])


def has_changes(unit: Unit) -> bool:
    return bool(
        unit.new_submissions
        or unit.due_submissions
        or unit.taken_submissions
        or unit.refused_submissions
        or unit.waiting_submissions
        or unit.requeued_submissions
        or unit.removed_submissions
        or unit.submissions_wait is not None
    )


def change(tables: Tables, unit: Unit) -> None:
    tables.submitted.update(unit.new_submissions)
    for number in unit.due_submissions & tables.submitted.keys():
        tables.submitted[number] = replace(tables.submitted[number], not_before=0)
    for number, lk0 in unit.taken_submissions.items():
        row = tables.submitted.get(number)
        if row is not None and row.envelope and row.lk0 != str(lk0):
            tables.renamed[row.lk0] = number
    for number in unit.taken_submissions:
        tables.submitted.pop(number, None)
    tables.taken.update(unit.taken_submissions)
    tables.refused.update(unit.refused_submissions)
    for number, (code, words) in unit.waiting_submissions.items():
        if number in tables.submitted and number not in tables.refused:
            tables.submitted[number] = replace(tables.submitted[number], wait_code=code, wait_text=words)
    for number in unit.requeued_submissions & tables.refused.keys():
        tables.renamed[str(tables.refused[number].lk0)] = number
    for number in unit.removed_submissions & tables.refused.keys():
        tables.taken[number] = tables.refused[number].lk0
    for number in unit.requeued_submissions | unit.removed_submissions:
        tables.refused.pop(number, None)
    for number in unit.removed_submissions:
        tables.submitted.pop(number, None)
    if unit.submissions_wait is not None:
        tables.waits = dict(unit.submissions_wait)


def _sized(row: Submitted, payload_bytes_max: int, headers_bytes_max: int) -> Submitted:
    """Return a row with its size, without a payload or headers of more bytes than permitted."""
    size = len(row.payload)
    headers = row.headers if len(row.headers or "") <= headers_bytes_max else None
    return replace(row, size=size, payload=row.payload if size <= payload_bytes_max else b"", headers=headers)
