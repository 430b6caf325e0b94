"""A refused document ends its channel after the outcomes before it, and nothing behind it is accepted.

The reply text of the close names the document, and has the code and the complete remedy in at most 255 bytes.
"""

import asyncio
import socket

import pytest

from local_node.doors import nacks
from local_node.doors.submission import NAME_MAX, refusal
from semq.amqp import events as e
from semq.amqp import methods as m
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.errors import AmqpError
from semq.amqp.frames import FrameReader, frame
from semq.amqp.spec import FRAME_BODY, FRAME_HEADER
from semq.broker.services import Refused, ServiceNacked
from semq.engine import errors
from semq.errors import BadInput, SemqError
from semq.seal.errors import CannotSeal, HeaderUnfit
from semq.store.postgres.errors import RowRefused
from semq.umx_t.app_key import parse_app_key
from semq.umx_t.errors import BadAddress, BadAppKey, BadAttribute
from semq.umx_t.headers import read_submission
from tests.broker.raw import RawClient
from tests.differential.bare import framed, log_in, read_lines
from tests.service.inprocess import LOCAL_CONFIG, InProcess, linked


def app_key_error(*parts: str) -> SemqError:
    with pytest.raises(BadAppKey) as refused:
        parse_app_key("/".join(parts))
    return refused.value


def attribute_error(name: str) -> SemqError:
    with pytest.raises(BadAttribute) as refused:
        read_submission({name: 1}, {})
    return refused.value


ERRORS: list[SemqError] = [
    app_key_error("a", "b", "c", "x" * 129),
    app_key_error("a" * 129, "b", "c", "d"),
    app_key_error("a", "b", "line\nbreak", "d"),
    app_key_error("a"),
    attribute_error("@Nonsense"),
    attribute_error("@savefwd"),
    BadAddress(address="5 6"),
    errors.UnknownTarget(target="1.99999"),
    errors.TargetNotAllowed(target="1.88001"),
    errors.DocumentTooLarge(size=99_999_999, allowed=67_108_864),
    errors.QuotaReached(target="1.56001", waiting=1_000_000),
    errors.TokenReused(token="T1", lk0="1.10008.1.1.76fe0016cf8c06df.1099511627779"),
    errors.Expired(expires_at=1),
    errors.TypeNotAllowed(target="1.56001", domain="trade", type="order"),
    errors.TooFast(target="1.56001", per_minute=600),
    errors.Stopping(),
    CannotSeal(target="1.56001", certificate_here=False),
    HeaderUnfit(),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: f"{error.code} {error.text[:30]}")
def test_the_reply_text_contains_the_complete_remedy(error: SemqError) -> None:
    name = f"document 1000000, @Token {'t' * NAME_MAX}"
    outcome = refusal(error, name)
    assert isinstance(outcome, Refused if isinstance(error, BadInput) else ServiceNacked)
    closing = outcome.error
    assert isinstance(closing, AmqpError)
    assert f"{name}: {error.code}" in closing.reply_text
    assert closing.reply_text.endswith(error.remedy), len(closing.reply_text)
    assert len(closing.reply_text.encode()) <= 255


def test_the_reply_text_contains_the_words_of_postgres() -> None:
    error = RowRefused(sqlstate="P0001", fault="no such order here", context="PL/pgSQL function refuse()")
    outcome = refusal(error, f"document 1000000, @Token {'t' * NAME_MAX}")
    assert isinstance(outcome, Refused)
    assert "no such order here" in outcome.error.reply_text


CONFIRM = framed(m.ConfirmSelect())
CLOSE = framed(m.ChannelClose(200, "bye"))
END = framed(m.ConnectionClose(200, "bye"), 0)


def document(target: str, **headers: str | int) -> bytes:
    properties = Properties(headers={f"@{name}": value for name, value in headers.items()})
    header = frame(FRAME_HEADER, 1, ContentHeader.build(1, properties).raw)
    return framed(m.BasicPublish("semq", target)) + header + frame(FRAME_BODY, 1, b"x")


def answers(port: int, data: bytes, end: bytes = b"") -> list[str]:
    """Return the methods that a node answers to bytes that end with connection.close.

    ``end`` is sent after the first confirm.
    """
    with socket.create_connection(("127.0.0.1", port)) as connection:
        reader = FrameReader(1 << 20)
        log_in(connection, reader)
        connection.sendall(data)
        lines: list[str] = []
        while "0 connection.close-ok" not in lines:
            received = read_lines(connection, reader)
            assert received, lines
            lines += received
            if end and any("basic.ack" in line for line in lines):
                connection.sendall(end)
                end = b""
    return lines


ENDS = ["1 channel.close 404 60.40", "1 channel.close-ok", "0 connection.close-ok"]


async def test_a_sender_that_closes_at_once_learns_that_its_document_is_refused(inprocess: InProcess) -> None:
    _, a = await inprocess.linked_pair()
    for token in ({}, {"Token": "T1"}):
        bad = document("99999", **token)
        assert await asyncio.to_thread(answers, a.port, bad + CLOSE + END) == ENDS
        assert await asyncio.to_thread(answers, a.port, bad + END) == [ENDS[0], ENDS[2]]
        assert await asyncio.to_thread(answers, a.port, CONFIRM + bad + CLOSE + END) == ["1 confirm.select-ok", *ENDS]
    good = CONFIRM + document("56001") + CLOSE + END
    confirmed = ["1 confirm.select-ok", "1 basic.ack 1", "1 channel.close-ok", "0 connection.close-ok"]
    assert await asyncio.to_thread(answers, a.port, good) == confirmed


@pytest.mark.parametrize("has_tokens", [False, True])
async def test_documents_behind_a_refused_one_are_not_accepted(inprocess: InProcess, has_tokens: bool) -> None:
    _, a = await inprocess.linked_pair()

    def publish() -> tuple[list[tuple[int, bool]], str]:
        """Publish ten documents in one write, the fifth of them bad; return the confirms and the reason."""
        with RawClient(a.port).log_in() as client:
            client.request(m.ConfirmSelect(), m.ConfirmSelectOk)
            for number in range(1, 11):
                headers = {"@Token": f"T{number}"} if has_tokens else {}
                header = ContentHeader.build(1, Properties(headers=headers))
                client.machine.publish(1, "semq", "99999" if number == 5 else "56001", header, b"x")
            client.flush()
            confirms: list[tuple[int, bool]] = []
            while True:
                client.read()
                for event in client.events:
                    if isinstance(event, e.ChannelClosed):
                        assert event.error is not None
                        return confirms, event.error.text
                    if isinstance(event, e.Acked | e.Nacked):
                        confirms.append((event.delivery_tag, isinstance(event, e.Acked)))
                client.events.clear()

    confirms, reason = await asyncio.to_thread(publish)
    acked = [number for number, is_safe in confirms if is_safe]
    assert max(acked) == 4
    assert not [number for number, is_safe in confirms if not is_safe and number <= 5]
    assert a.engine.core.counters.counts["accepted"] == 4
    assert ("document 5, @Token T5: SEMQ-1201" if has_tokens else "document 5 to 99999: SEMQ-1201") in reason


async def test_the_quota_is_checked_within_a_batch(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    config = LOCAL_CONFIG.format(name="10008", hub=hub.port) + "quota_rows_per_partner = 5\n"
    a = await inprocess.start_node(inprocess.settings("10008", config))
    await linked(a)
    lines = await asyncio.to_thread(answers, a.port, CONFIRM + 10 * document("56001") + CLOSE + END)
    assert lines[-2:] == ["1 channel.close-ok", "0 connection.close-ok"]
    assert lines.count("1 basic.nack") == 5
    assert a.engine.core.counters.counts["accepted"] == 5


async def test_a_close_does_not_wait_for_delayed_nacks(inprocess: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FIRST_S", "LONGEST_S"):
        monkeypatch.setattr(nacks, name, 86_400.0)
    hub = await inprocess.hub()
    config = LOCAL_CONFIG.format(name="10008", hub=hub.port) + "quota_rows_per_partner = 1\n"
    a = await inprocess.start_node(inprocess.settings("10008", config))
    await linked(a)
    bad = 2 * document("56001")
    outcomes = ["1 basic.ack 1", "1 basic.nack", "1 basic.nack", "1 confirm.select-ok"]
    at_once = await asyncio.to_thread(answers, a.port, CONFIRM + document("56001") + bad + END)
    assert (sorted(at_once[:-1]), at_once[-1:]) == (outcomes, ENDS[2:])
    after_the_delay_began = await asyncio.to_thread(answers, a.port, CONFIRM + document("10008") + bad, CLOSE + END)
    assert (sorted(after_the_delay_began[:-2]), after_the_delay_began[-2:]) == (outcomes, ENDS[1:])
    without_confirms = await asyncio.to_thread(answers, a.port, bad + CLOSE + END)
    assert without_confirms == ["1 channel.close 406 60.40", "1 channel.close-ok", "0 connection.close-ok"]
    refused = await asyncio.to_thread(answers, a.port, CONFIRM + bad + document("99999") + END)
    assert refused[1:] == ["1 basic.nack", "1 basic.nack", ENDS[0], ENDS[2]]
