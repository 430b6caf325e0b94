"""Sequence diagrams."""

import pytest

from documentation.sequence import WrongDiagram, svg


def test_a_message_has_a_head_and_a_lost_one_a_cross() -> None:
    drawn = svg("A | Hub\nA -> Hub: MSG <1>\nA -- Hub: MSG\nA: COMMIT\n== later")
    assert drawn.count('class="head"') == drawn.count('class="lost"') == 1
    assert "MSG &lt;1&gt;" in drawn
    assert "COMMIT" in drawn
    assert drawn.index("later") > drawn.index("COMMIT")


@pytest.mark.parametrize("line", ["A > Hub: MSG", "C -> A: MSG", "what?"])
def test_a_line_that_is_nothing_is_refused(line: str) -> None:
    with pytest.raises(WrongDiagram):
        svg(f"A | Hub\n{line}")
