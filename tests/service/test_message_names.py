"""Names of several messages: the error says how to name one of them."""

import pytest

from semq.service.errors import BadArguments
from semq.service.message_names import fits_several, newest_first
from semq.umx_t.short_name import short_name
from tests.service.inprocess import InProcess, ask

OURS, THEIRS = "1.10008.1.1.a.7", "1.56001.1.1.b.7"


def test_a_number_of_several_messages_is_refused_with_their_short_names_sources_and_times() -> None:
    rows = [{"lk0": OURS, "at": 1_774_958_400_000}]
    with pytest.raises(BadArguments) as caught:
        newest_first("7", [OURS, THEIRS, OURS], rows)
    assert str(caught.value) == (
        "SEMQ-2102 The number fits several documents."
        f" (found='{short_name(OURS)} from 1.10008 at 2026-03-31T12:00:00+00:00, {short_name(THEIRS)} from 1.56001')"
    )
    assert "`semq msg show NAME`" in caught.value.remedy


def test_a_key_denotes_the_newest_of_several_messages() -> None:
    assert newest_first("trade/order//S7", [OURS, THEIRS]) == [OURS, THEIRS]


def test_only_some_of_many_messages_are_shown() -> None:
    error = fits_several("The name fits several documents.", [f"1.10008.1.1.a.{number}" for number in range(40)])
    assert len(error.facts["found"]) == 5


async def test_the_proof_of_several_messages_is_refused_with_their_short_names_and_times(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    admin = await inprocess.client(await inprocess.local("10008", hub.port))
    document = {"target": "56001", "app_key": "trade/order//S7", "body_base64": "eA=="}
    sent = [(await ask(admin, "msg.submit", document))["result"]["lk0"] for _ in range(2)]
    error = (await ask(admin, "msg.prove", {"id": "trade/order//S7"}))["error"]
    assert error["code"] == "SEMQ-2102"
    assert "`semq msg show NAME`" in error["remedy"]
    named = [found.partition(" from 1.10008 at 2")[0] for found in error["facts"]["found"].split(", ")]
    assert sorted(named) == sorted(map(short_name, sent))
