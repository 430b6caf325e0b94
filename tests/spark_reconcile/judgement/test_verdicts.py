"""The grid: every situation has exactly one verdict, every row is reached, and a typing error fails at import."""

from itertools import product
from pathlib import Path

import pytest

from semq.translations import used
from spark_reconcile.judgement import verdicts
from spark_reconcile.judgement.situation import HUBS, RECEIVERS, REMARKS, SENDERS, Situation
from spark_reconcile.judgement.verdicts import (
    EXCEPTIONS,
    FINDINGS,
    GRID,
    RULES,
    URGENCY,
    VERDICT,
    VERDICTS,
    advice,
    finding_of,
    judge,
)
from spark_reconcile.language import _
from spark_reconcile.repair.repair_list import DEEDS

REQUIRED = ["MATCHED", "IN_FLIGHT", "WAITING_OFFLINE", "MISSING_AT_HUB", "NOT_DELIVERED", "ACK_NOT_RETURNED",
            "REACK_NOT_RETURNED", "DUPLICATE_DELIVERED", "DIGEST_MISMATCH", "UNKNOWN_ORIGIN", "DROPPED_BY_POLICY",
            "REFUSED", "STATE_CONTRADICTION", "QUARANTINED", "SOURCE_MISSING"]  # fmt: skip
# Sets of remarks with which every row of the grid is reached.
REMARK_SETS = [
    frozenset(),
    *(frozenset({remark}) for remark in REMARKS),
    frozenset({"untold", "best_effort"}),
    frozenset({"untold", "best_effort", "owes"}),
    frozenset({"best_effort", "promised"}),
    frozenset({"best_effort", "unsent"}),
    frozenset({"untold", "best_effort", "kept"}),
    frozenset({"kept", "hub_away"}),
    frozenset({"owes", "receiver_away"}),
    frozenset({"untold", "best_effort", "owes", "receiver_away"}),
]


def test_the_required_verdicts_exist_once() -> None:
    names = [verdict.name for verdict in VERDICTS]
    assert set(REQUIRED) <= set(names)
    assert len(names) == len(set(names))
    assert {verdict.kind for verdict in VERDICTS} == {"fine", "open", "exception"}


def test_the_documentation_has_every_verdict_with_its_words_in_both_languages() -> None:
    text = (Path(verdicts.__file__).parents[1] / "DESIGN.md").read_text("utf-8")
    for row in VERDICTS:
        with used("zh"):
            cells = (row.name, row.word, _(row.word), row.kind, row.owner, row.meaning, row.next_step)
        assert f"| {' | '.join(cells)} |" in text


def test_no_document_that_was_cancelled_or_refused_is_to_be_sent_or_submitted_again() -> None:
    """A restored receiver also loses its records of such documents; their senders do not want them delivered."""
    for words in product(("cancelled", "rejected"), HUBS, RECEIVERS):
        for remarks in REMARK_SETS:
            assert finding_of(judge(Situation(*words, remarks)).finding).deed not in ("submit", "resend"), words


def test_a_document_whose_sender_no_longer_waits_is_to_be_submitted_again() -> None:
    """Its sender has no row any more, so that an inquiry would find nothing to do."""
    lost = Situation("forwarded", "released", "none", frozenset({"untold", "best_effort"}))
    waiting = Situation("stored", "released", "none", frozenset())
    assert [finding_of(judge(each).finding).deed for each in (lost, waiting)] == ["submit", "inquire"]


def test_every_situation_has_a_verdict_and_every_row_of_the_grid_is_reached() -> None:
    reached = {
        judge(Situation(*words, remarks)) for words in product(SENDERS, HUBS, RECEIVERS) for remarks in REMARK_SETS
    }
    assert reached == set(RULES)


def test_every_finding_of_an_exception_has_a_meaning_and_a_known_deed_or_none() -> None:
    for rule in RULES:
        verdict = VERDICT[rule.verdict]
        if verdict.kind == "exception":
            meaning, side, deed = FINDINGS[rule.finding]
            assert meaning.endswith(".")
            assert (side == "") == (deed == "")
            assert deed in ("", *DEEDS)
            assert side in ("", "sender", "hub", "receiver")
            assert advice(rule.finding, rule.verdict).startswith(meaning)
    assert FINDINGS.keys() <= {rule.finding for rule in RULES}


def test_every_verdict_has_its_urgency_and_exceptions_go_first() -> None:
    assert sorted(URGENCY) == sorted(VERDICT)
    assert {VERDICT[name].kind for name in URGENCY[: len(EXCEPTIONS)]} == {"exception"}


def test_the_lines_of_the_grid_are_short() -> None:
    assert max(map(len, GRID.splitlines())) <= 120


@pytest.mark.parametrize(
    "row",
    ["x MATHCED . . . .", "x MATCHED senderr . . .", "x MATCHED . . received yuong", "x MATCHED . . ."],
)
def test_a_misspelt_word_is_refused(row: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 the message names the word
        verdicts._read(f"heading\n{row}")
