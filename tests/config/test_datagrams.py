"""The section [datagrams]: its default, its ports, and which nodes advertise an address."""

from pathlib import Path

import pytest

from semq.config import load
from semq.config.datagrams import DATAGRAM_PORT, DatagramsSection
from semq.config.errors import ConfigInvalid

NODE = '[node]\nkind = "local"\nid = "1"\n[hub]\nurl = "amqp://127.0.0.1"\npassword = "x"\n'
HUB = '[node]\nkind = "platform"\nid = "hub"\n'


def test_without_the_section_there_are_no_datagrams(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text(NODE)
    assert load(file, {}).datagrams is None
    file.write_text(NODE + "[datagrams]\n")
    assert load(file, {}).datagrams == DatagramsSection()


def test_the_listening_port_has_a_default() -> None:
    assert DatagramsSection().listening_port == DATAGRAM_PORT
    assert DatagramsSection(port=0).listening_port == 0


def test_only_an_end_that_is_dialled_advertises_an_address(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    section = '[datagrams]\nadvertised_host = "hub.example"\nadvertised_port = 7000\n'
    file.write_text(HUB + section)
    load(file, {})
    file.write_text(NODE + section)
    with pytest.raises(ConfigInvalid) as caught:
        load(file, {})
    assert "datagrams.advertised_host" in str(caught.value)
    assert "datagrams.advertised_port" in str(caught.value)
