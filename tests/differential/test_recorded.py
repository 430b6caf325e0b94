"""A node answers the scripts as RabbitMQ did when it was recorded, except for the known differences. A record has all
scripts.
"""

import json
from collections.abc import Iterator

import pytest

from bench.lone_node import node
from tests.differential.__main__ import RECORDED, main, perform
from tests.differential.differences import KNOWN
from tests.differential.scripts import SCRIPTS


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with node(tmp_path_factory.mktemp("differential")) as port:
        yield port


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_node_answers_as_rabbitmq_did(port: int, name: str) -> None:
    recorded = json.loads(RECORDED.read_text("utf-8"))
    assert (perform(port, SCRIPTS[name]) == recorded[name]) == (name not in KNOWN)


def test_a_record_of_some_scripts_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["--record", "--only", "topics"])
    assert exit_info.value.code == 2
    assert "leave out --only" in capsys.readouterr().err
