"""The section [telemetry]: valid values, and faults that name the key and no secret."""

from pathlib import Path

import pytest

from semq.config import load
from semq.config.errors import ConfigInvalid
from tests.test_config import HUB_CONFIG

GOOD = '[telemetry]\nendpoint = "http://127.0.0.1:4318/v1/traces"\n'


def write(folder: Path, text: str) -> Path:
    file = folder / "semq.toml"
    file.write_text(f"{HUB_CONFIG}\n{text}")
    return file


def test_without_the_section_there_is_no_telemetry(tmp_path: Path) -> None:
    assert load(write(tmp_path, ""), {}).telemetry is None
    found = load(write(tmp_path, GOOD), {}).telemetry
    assert found is not None
    assert (found.endpoint, found.sample_ratio) == ("http://127.0.0.1:4318/v1/traces", 0.0)


def test_headers_are_secrets_and_may_be_set_by_variables(tmp_path: Path) -> None:
    file = write(tmp_path, f'{GOOD}trust = "ca.pem"\n[telemetry.headers]\nX-Tenant = "secret-1"\n')
    settings = load(file, {"SEMQ_TELEMETRY__HEADERS__AUTHORIZATION": "Bearer secret-2"})
    assert settings.telemetry is not None
    given = {name: value.get_secret_value() for name, value in settings.telemetry.headers.items()}
    assert given == {"X-Tenant": "secret-1", "authorization": "Bearer secret-2"}
    assert settings.telemetry.trust == tmp_path / "ca.pem"
    assert not any("secret-" in row.value for row in settings.explain())


def test_institutions_of_one_server_share_the_section(tmp_path: Path) -> None:
    file = tmp_path / "server.toml"
    own = (
        '[institutions."10008"]\nhub.password = "a"\n'
        '[institutions."56001"]\nhub.password = "b"\ntelemetry.sample_ratio = 1.0\n'
    )
    file.write_text(f'[server]\nid = "east"\ndata_dir = "east"\n{GOOD}[hub]\nurl = "amqp://127.0.0.1"\n{own}')
    found = [load(file, {}, name).telemetry for name in ("10008", "56001")]
    assert [one and (one.endpoint, one.sample_ratio) for one in found] == [
        ("http://127.0.0.1:4318/v1/traces", 0.0),
        ("http://127.0.0.1:4318/v1/traces", 1.0),
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('endpoint = "http://127.0.0.1:4318"', "telemetry.endpoint: must be https://host:port/path"),
        ('endpoint = "grpc://127.0.0.1:4317/x"', "telemetry.endpoint: must be https://host:port/path"),
        ('endpoint = "https://user:secret-x@host/v1/traces"', "telemetry.endpoint: must not contain a user"),
        ('endpoint = "https://höst/v1/traces"', "telemetry.endpoint: must be printable ASCII"),
        ('endpoint = "http://host.example/v1/traces"', "telemetry.endpoint: leads to another machine without TLS"),
        (f'{GOOD[12:]}headers = {{ "a b" = "x" }}', "telemetry.headers.a b"),
        (f'{GOOD[12:]}headers = {{ a = "secret-x\\n" }}', "telemetry.headers.a: must be printable ASCII"),
        (f"{GOOD[12:]}sample_ratio = 1.5", "telemetry.sample_ratio"),
        (f"{GOOD[12:]}sample_ration = 1", "did you mean telemetry.sample_ratio"),
        ("sample_ratio = 1", "telemetry.endpoint: missing"),
    ],
)
def test_faults_of_the_section_are_named_without_secrets(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(ConfigInvalid) as invalid:
        load(write(tmp_path, f"[telemetry]\n{text}\n"), {})
    result = invalid.value.advice()
    assert fault in result
    assert "secret-x" not in result


def test_allow_plain_permits_http_to_another_machine(tmp_path: Path) -> None:
    text = '[telemetry]\nendpoint = "http://host.example/v1/traces"\nallow_plain = true\n'
    assert load(write(tmp_path, text), {}).telemetry is not None
