"""Messages that arrive together are recorded although a decision about one of them fails. Flows test the rest."""

from typing import Any

import psycopg
import pytest

from semq.engine.ports import Submission
from semq.engine.receiver import recording
from semq.engine.time.expiry import is_expired
from semq.umx_t.address import Address
from semq.umx_t.envelope import Attributes
from tests.service.inprocess import InProcess, linked
from tests.waiting import until

FAULTY = 4_000_000_000_000  # @ExpiresAt of the message about which a decision fails
COUNT = 10


async def test_messages_are_recorded_although_a_decision_about_one_of_them_fails(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = await inprocess.hub()
    a, b = await inprocess.local("10008", hub.port), await inprocess.local("56001", hub.port)
    await linked(a, b)

    def fail(expires_at: int, now: int) -> bool:
        if expires_at == FAULTY:
            raise ValueError("a defect that one message shows")
        return is_expired(expires_at, now)

    monkeypatch.setattr(recording, "is_expired", fail)
    errors: list[Exception] = []

    def submission(number: int) -> Submission:
        attributes = Attributes(expires_at=FAULTY if number == 3 else 0)
        return Submission(Address(1, "56001"), attributes, b"%d" % number, lambda accepted: None, errors.append)

    a.engine.submit([submission(number) for number in range(COUNT)])

    def recorded() -> list[Any]:
        with psycopg.connect(b.store.url) as connection:
            return connection.execute("SELECT count(*) FROM tb_0030").fetchall()

    await until(lambda: recorded() == [(COUNT - 1,)])
    monkeypatch.undo()
    await until(lambda: recorded() == [(COUNT,)])
    assert errors == []
