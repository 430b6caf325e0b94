"""The reply text of a closed channel has the code and the complete remedy in at most 255 bytes."""

import pytest

from local_node.doors.submission import refusal
from semq.amqp.errors import AmqpError
from semq.broker.services import Refused, ServiceNacked
from semq.engine import errors
from semq.errors import BadInput, SemqError
from semq.seal.errors import CannotSeal, HeaderUnfit
from semq.umx_t.app_key import parse_app_key
from semq.umx_t.errors import BadAddress, BadAppKey, BadAttribute
from semq.umx_t.headers import read_submission


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
    outcome = refusal(error)
    assert isinstance(outcome, Refused if isinstance(error, BadInput) else ServiceNacked)
    closing = outcome.error
    assert isinstance(closing, AmqpError)
    assert error.code in closing.reply_text
    assert closing.reply_text.endswith(error.remedy), len(closing.reply_text)
    assert len(closing.reply_text.encode()) <= 255
