"""The configuration of a hub with several instances."""

from pathlib import Path

import pytest

from tests.test_config import HUB_CONFIG, LOCAL, faults, read


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "semq.toml"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            LOCAL + '[cluster]\ncarrier = ["amqp://u:p@127.0.0.1"]\n',
            "cluster: only the hub has instances; remove this section or set node.kind to platform",
        ),
        (
            HUB_CONFIG + '[cluster]\ncarrier = ["amqps://u:p@mq1", "amqp://u:p@mq2"]\n',
            (
                "cluster.carrier: leads to another machine without TLS: use amqps://, or set cluster.allow_plain to "
                "permit it"
            ),
        ),
        (
            HUB_CONFIG + '[cluster]\ncarrier = ["amqps://mq1"]\n',
            "cluster.carrier.0: must contain a user and a password",
        ),
    ],
)
def test_faults_of_the_configuration_are_reported_with_their_setting(file: Path, text: str, expected: str) -> None:
    assert faults(file, text) == [f"semq.toml: {expected}"]


def test_a_hub_has_one_process_unless_configured_otherwise(file: Path) -> None:
    assert read(file, HUB_CONFIG).cluster is None


def test_passwords_of_carrier_and_control_database_are_shown_nowhere(file: Path) -> None:
    text = '[cluster]\ncarrier = ["amqps://semq:hidden@mq"]\ncontrol = "postgresql://semq:hidden@db/semq"\n'
    settings = read(file, HUB_CONFIG + text)
    assert "hidden" not in repr(settings) + str(settings.explain()) + settings.model_dump_json()
    assert settings.cluster is not None
    assert "hidden" in settings.cluster.carrier[0].get_secret_value()


def test_the_path_of_authorities_is_relative_to_the_configuration_file(file: Path) -> None:
    settings = read(file, HUB_CONFIG + '[cluster]\ncarrier = ["amqps://u:p@mq"]\ntrust = "mq.pem"\n')
    assert settings.cluster is not None
    assert settings.cluster.trust == file.parent / "mq.pem"
