"""The page of figures over time."""

import pytest

from semq.console.pages.figures import period_words
from semq.service.operations.figures import PERIODS
from tests.console.scene import Scene


def test_every_period_has_a_name() -> None:
    assert period_words(str).keys() == PERIODS.keys()


@pytest.mark.asyncio(loop_scope="session")
async def test_a_wrong_period_is_that_of_a_day_and_a_foreign_partner_is_shown_as_text(scene: Scene) -> None:
    browser = await scene.sites["hub"].signed_in("viewer")
    answer = await browser.get("/figures?period=x&partner=%3Cb%3E")
    assert answer.status_code == 200
    assert '<option value="day" selected>' in answer.text
    assert "&lt;b&gt;" in answer.text
