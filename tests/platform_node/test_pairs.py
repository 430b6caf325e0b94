"""Pairs of institutions that a change of definitions would stop."""

from dataclasses import dataclass

import pytest

from platform_node import pairs
from platform_node.definitions import HubDefinitions, read_definitions
from platform_node.pairs import stopped


@dataclass(frozen=True)
class Allowed:
    may_send_to: list[str] | None = None


ACCOUNTS = {"1": Allowed(), "2": Allowed(["1"]), "3": Allowed()}
FIRST = '[[agreements]]\nfrom = ["1"]\nto = ["2"]\n'


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("", FIRST, ["1 -> 3", "2 -> 1", "3 -> 1", "3 -> 2"]),
        (FIRST, "", []),
        (FIRST, FIRST + '[[agreements]]\nfrom = ["*"]\nto = ["3"]\n', []),
        (FIRST, '[[agreements]]\nfrom = ["2"]\nto = ["1"]\n', ["1 -> 2"]),
        ('[nodes."4"]\n', "", ["1 -> 4", "3 -> 4", "4 -> 1", "4 -> 2", "4 -> 3"]),
        ('[nodes."4"]\n' + FIRST, FIRST, []),
        ("", "", []),
    ],
)
def test_pairs_that_would_stop(before: str, after: str, expected: list[str]) -> None:
    assert stopped(ACCOUNTS, read_definitions(before), read_definitions(after)) == (expected, True)


def test_the_work_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    many = {str(number): Allowed() for number in range(100)}
    after = read_definitions(FIRST)
    assert stopped(many, HubDefinitions(), after) == (
        stopped(many, HubDefinitions(), after).pairs[: pairs.NAMED_MAX],
        False,
    )
    monkeypatch.setattr(pairs, "COMPARED_MAX", 5)
    assert stopped(many, HubDefinitions(), after) == (["0 -> 1", "0 -> 2", "0 -> 3", "0 -> 4"], False)
