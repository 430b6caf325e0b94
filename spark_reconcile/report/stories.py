"""The exceptions on the page: each finding with its meaning, owner and next steps; and sample messages with their
ledger lines.
"""

import shlex
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from semq.store.rows import Event, Side
from spark_reconcile.extracts.events import EVENTS_OF, NOTES, mask
from spark_reconcile.judgement.verdicts import URGENCY, VERDICT, Verdict, finding_of, next_step
from spark_reconcile.report.figures import VerdictFigures
from spark_reconcile.report.findings import Findings
from spark_reconcile.report.order import in_order
from spark_reconcile.report.pairs import Pair, Pairs
from spark_reconcile.report.steps import NextStep, next_steps, owners
from spark_reconcile.report.words import app_key_type, event_words, off_by, side_word, state_words
from spark_reconcile.run.readings import STORY_LINES
from spark_reconcile.tables import Row

SIDES = ("sender", "hub", "receiver")
DIGEST_DIGITS = 16  # hexadecimal digits of a digest in a line; exceptions.csv has all
PAIRS_NAMED = 8  # pairs named with a finding, those with most of its messages


class MessageText(NamedTuple):
    """A message in words."""

    row: Row  #: of the exceptions
    anchor: str
    owners: list[tuple[str, str]]
    key_type: str
    shown: str  #: its LK0 as an argument of a command
    state_words: list[tuple[str, str]]  #: by side
    steps: list[NextStep]
    story: list[dict[str, object]]
    is_cut: bool  #: whether it has more lines than ``story``
    clocks: list[tuple[str, str]]  #: nodes whose clock is wrong, and by how much


class FindingText(NamedTuple):
    """A finding in words, with its sample of messages."""

    finding: str
    verdict: Verdict
    words: str
    deed: str
    messages: list[MessageText]
    step: str
    figures: VerdictFigures
    where: list[tuple[Pair, str, VerdictFigures]]  #: the worst pairs, with their anchors


def by_finding(
    findings: Findings, sample: Sequence[Row], lines: Mapping[str, list[Row]], pairs: Pairs
) -> list[FindingText]:
    """Return the findings of the exceptions in ``sample``, the most urgent verdict first, each with its messages.

    ``sample``: exceptions, sorted by finding. ``lines``: ledger lines by LK0.
    """
    groups = []
    numbers = iter(range(1, len(sample) + 1))
    texts = _MessageTexts(findings)
    for finding, rows in groupby(sample, key=lambda row: row["finding"]):
        messages = [texts.describe(row, lines.get(row["lk0"], []), f"m{next(numbers)}") for row in rows]
        verdict = messages[0].row["verdict"]
        meaning, _, deed = finding_of(finding)
        step, figures = next_step(finding, verdict), findings.tally.figures(finding=finding)
        where = _worst_pairs(pairs, finding)
        groups.append(FindingText(finding, VERDICT[verdict], meaning, deed, messages, step, figures, where))
    return sorted(groups, key=lambda group: URGENCY.index(group.verdict.name))


def _worst_pairs(pairs: Pairs, finding: str) -> list[tuple[Pair, str, VerdictFigures]]:
    counted = [
        (pair, f"p{number}", figures)
        for number, pair in enumerate(pairs.shown, 1)
        if (figures := pairs.tallies[pair.name].figures(finding=finding)).all
    ]
    return sorted(counted, key=lambda row: -row[2].all)[:PAIRS_NAMED]


class _MessageTexts:
    """Describes messages in words, with the hub's address and the clock differences of one run."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._hub, self._hubs = findings.hub, findings.hubs
        self._skew = findings.clock_ms

    def describe(self, row: Row, lines: Sequence[Row], anchor: str) -> MessageText:
        ordered = in_order(lines[:STORY_LINES], self._moment)
        faults = [unreadable(line, row["lk0"], self._hubs) for line in ordered]
        unusable = (line for line, fault in zip(ordered, faults, strict=True) if line["outside"] or fault)
        writer = next((line["node"] for line in unusable), "")
        return MessageText(
            row,
            anchor,
            owners(row, self._hub),
            app_key_type(row),
            shlex.quote(row["lk0"]),
            [(side, state_words(side, row[f"{side}_word"])) for side in SIDES],
            next_steps(row, self._findings.day.isoformat(), self._hub, writer),
            [self._line(line, fault) for line, fault in zip(ordered, faults, strict=True)],
            len(lines) > STORY_LINES,
            self._clocks(ordered),
        )

    def _moment(self, line: Row) -> int:
        return int(line["at"]) - self._skew.get(line["node"], 0)

    def _line(self, line: Row, fault: str) -> dict[str, object]:
        copy = line["lk1"] and f"copy {line['lk1']}"
        digest = line["digest"] and f"SHA-256 {line['digest'][:DIGEST_DIGITS]}…"
        return {
            # ``read_lines`` has replaced a time outside the dates of its extract.
            "at": "outside its dates" if line["outside"] else self._findings.calendar.local(line["at"]),
            "node": line["node"],
            "side": side_word(line["side"]),
            "words": event_words(line["side"], line["event"]),
            "att": line["att"] or "",
            "details": " ".join(filter(None, (fault, copy, digest, line["reason"]))),
        }

    def _clocks(self, lines: Sequence[Row]) -> list[tuple[str, str]]:
        wrong = {line["node"]: self._skew[line["node"]] for line in lines if line["node"] in self._skew}
        return [(node, off_by(ms)) for node, ms in sorted(wrong.items())]


def unreadable(line: Row, lk0: str, hubs: Collection[str]) -> str:
    """Return why a line is unreadable; empty if it is readable. ``facts`` has the same rule in SQL."""
    try:
        side, event = Side(line["side"] or 0), Event(line["event"] or 0)
    except ValueError:
        return "unreadable: no such side or event"
    is_note = bool(mask(event) & NOTES)
    conditions = (
        (lk0.startswith("?"), "it names no message"),
        (line["seq"] is None, "it has no number"),
        (event not in EVENTS_OF[side], f"a {side_word(side)} writes no such line"),
        (side is Side.SENDER and not is_note and not lk0.startswith(f"{line['node']}."),
         "it is in the ledger of another node than its sender's"),
        (side is Side.HUB and line["node"] not in hubs, "it is in the ledger of a node that is not a hub"),
    )  # fmt: skip
    return next((f"unreadable: {fault}" for holds, fault in conditions if holds), "")
