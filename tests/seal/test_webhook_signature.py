"""Signatures of webhooks: the example of the specification, and invalid secrets."""

from base64 import b64encode

import pytest

from semq.seal.webhook_signature import key_of, signature_headers

# The example of Standard Webhooks 1.0.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ID, TIMESTAMP = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330
BODY = b'{"test": 2432232314}'


def test_the_example_of_the_specification_has_its_signature() -> None:
    assert signature_headers([key_of(SECRET)], ID, TIMESTAMP, (BODY[:3], BODY[3:])) == {
        "webhook-id": ID,
        "webhook-timestamp": str(TIMESTAMP),
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


@pytest.mark.parametrize(
    "secret", ["MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_no base64!", "whsec_" + b64encode(bytes(23)).decode(),
               "whsec_" + b64encode(bytes(65)).decode()],
)  # fmt: skip
def test_malformed_secrets_are_refused(secret: str) -> None:
    with pytest.raises(ValueError, match="must"):
        key_of(secret)
