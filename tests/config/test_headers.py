"""Webhooks in the configuration: headers, client certificates, keys, proxies."""

from pathlib import Path

import pytest

from semq.config import ConfigInvalid, load
from semq.config.settings import Settings

KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NODE = f"""
[node]
kind = "local"
id = "10008"
[hub]
url = "amqps://127.0.0.1"
[[webhooks]]
name = "erp"
url = "https://erp.example.org/semq"
secret = "{KEY}"
"""


def settings_of(folder: Path, more: str) -> Settings:
    file = folder / "node.toml"
    file.write_text(NODE + more)
    return load(file, {})


def test_a_webhook_may_have_a_second_key_headers_a_client_certificate_and_a_proxy(tmp_path: Path) -> None:
    more = (
        f'next_secret = "{KEY}"\nheaders = {{Authorization = "Bearer abc"}}\ncertificate = "c.pem"\nkey = "k.pem"\n'
        'proxy = "http://user:word@proxy:3128"\nallow_private = true\n'
    )
    settings = settings_of(tmp_path, more)
    [webhook] = settings.webhooks
    assert (webhook.certificate, webhook.key) == (tmp_path / "c.pem", tmp_path / "k.pem")
    shown = " ".join(row.value for row in settings.explain())
    assert not any(secret in shown for secret in (KEY, "abc", "word"))


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ('next_secret = "short"', "webhooks.0.next_secret"),
        ('certificate = "c.pem"', "webhooks.0.key"),
        ('key = "k.pem"', "webhooks.0.certificate"),
        ('proxy = "http://proxy:3128"', "allow_private"),
        ('proxy = "socks5://proxy"\nallow_private = true', "http://host:port"),
        ('headers = {Content-Type = "x"}', "the node sets Content-Type itself"),
        ('headers = {webhook-id = "x"}', "the node sets webhook-id itself"),
        ('headers = {"X Y" = "x"}', "headers"),
        ('headers = {X = "a\\nb"}', "printable ASCII"),
    ],
)
def test_a_wrong_setting_of_a_webhook_is_named(tmp_path: Path, more: str, fault: str) -> None:
    with pytest.raises(ConfigInvalid, match=fault):
        settings_of(tmp_path, more)
