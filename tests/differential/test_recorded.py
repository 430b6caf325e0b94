"""A node answers the scripts as recorded from RabbitMQ, except for the known differences.

Scripts mostly wait for answers, so they are played on several nodes at the same time.
"""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from queue import SimpleQueue

import pytest

from bench.lone_node import node
from tests.differential.__main__ import main, perform
from tests.differential.differences import known_differences
from tests.differential.recordings import recordings
from tests.differential.scripts import SCRIPTS

NODES = 5


@pytest.fixture(scope="module")
def transcripts(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, "Future[list[str]]"]]:
    """Play the scripts of the selected tests; return the transcript of each."""
    calls = (getattr(item, "callspec", None) for item in request.session.items if item.path == request.path)
    names = [call.params["name"] for call in calls if call is not None]
    free_ports: SimpleQueue[int] = SimpleQueue()

    def play(name: str) -> list[str]:
        port = free_ports.get()
        try:
            return perform(port, SCRIPTS[name])
        finally:
            free_ports.put(port)

    with ExitStack() as nodes, ThreadPoolExecutor(NODES) as players:
        started = [node(tmp_path_factory.mktemp("differential")) for _ in range(min(NODES, len(names)))]
        for port in players.map(nodes.enter_context, started):
            free_ports.put(port)
        yield {name: players.submit(play, name) for name in names}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_node_answers_as_rabbitmq_did(transcripts: dict[str, "Future[list[str]]"], name: str) -> None:
    answered = transcripts[name].result()
    for version, recorded in recordings().items():
        assert (answered == recorded["scripts"][name]) == (name not in known_differences(version)), version


def test_recording_only_some_scripts_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["--record", "--only", "topics"])
    assert exit_info.value.code == 2
    assert "leave out --only" in capsys.readouterr().err
