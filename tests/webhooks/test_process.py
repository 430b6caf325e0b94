"""Webhooks of real nodes."""

import json
import os
import signal
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from semq.installation.process import NodeProcess
from tests.app.network import Network
from tests.cli import command
from tests.waiting import until_sync as until
from tests.webhooks.hook import Hook, ReceivedRequest, serving

WEBHOOK = """
[[webhooks]]
name = "erp"
url = "{url}"
secret = "whsec_{secret}"
allow_private = true
events = ["delivered"]
timeout_s = 20
"""


def semq_at(node: NodeProcess, *words: str, body: bytes = b"") -> str:
    result = command.semq(*words, "--node", node.url, stdin=body)
    assert result.status == 0, result
    return result.out


@pytest.fixture(scope="module")
def network_and_hook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Network, Hook]]:
    """Run three nodes, and an application behind a webhook of the receiver and of the sender."""
    network = Network(tmp_path_factory.mktemp("webhooks"))
    with ExitStack() as exits:
        hook = exits.enter_context(serving())
        for node in (network.sender, network.receiver):
            config = node.place.config
            text = WEBHOOK.format(url=hook.url, secret=b64encode(bytes(32)).decode())
            config.write_text(config.read_text() + text)
        network.start(exits)
        yield network, hook


def bodies(hook: Hook) -> list[bytes]:
    return [request.body for request in hook.received if request.headers.get("ce-type") == "semq.document"]


def test_a_document_and_its_event_are_posted(network_and_hook: tuple[Network, Hook]) -> None:
    network, hook = network_and_hook
    # From now on, events are collected.
    until(lambda: "semq.webhooks.erp" in semq_at(network.sender, "broker", "queues"))
    semq_at(network.sender, "msg", "send", "--to", "56001", "--type", "order", "--key", "S1", body=b"first")
    until(lambda: b"first" in bodies(hook))
    until(lambda: any(b"semq.document.delivered" in request.body for request in hook.received))
    content = next(json.loads(request.body) for request in hook.received if b"semq.document.delivered" in request.body)
    assert content["data"]["outcome"] == "DELIVERED"


def test_a_document_is_posted_again_until_the_application_accepts_it(network_and_hook: tuple[Network, Hook]) -> None:
    network, hook = network_and_hook
    failures_left = 3

    def fails_first(request: ReceivedRequest) -> tuple[int, dict[str, str]]:
        nonlocal failures_left
        if request.body == b"patient":
            failures_left -= 1
        return (503, {}) if failures_left >= 0 and request.body == b"patient" else (204, {})

    hook.answer = fails_first
    semq_at(network.sender, "msg", "send", "--to", "56001", body=b"patient")
    until(lambda: bodies(hook).count(b"patient") == 4)
    until(lambda: unacknowledged(network) == 0)
    hook.answer = lambda request: (204, {})


def test_a_document_that_is_refused_is_set_aside_with_the_answer(network_and_hook: tuple[Network, Hook]) -> None:
    network, hook = network_and_hook
    hook.answer = lambda request: (422, {}) if request.body == b"wrong" else (204, {})
    semq_at(network.sender, "msg", "send", "--to", "56001", body=b"wrong")
    until(lambda: "answer 422" in semq_at(network.receiver, "failed", "list", "--json"))
    assert bodies(hook).count(b"wrong") == 1
    hook.answer = lambda request: (204, {})


def test_nothing_is_lost_when_the_program_is_killed(network_and_hook: tuple[Network, Hook]) -> None:
    network, hook = network_and_hook
    wanted = {f"load {number}".encode() for number in range(60)}
    folder = network.sender.place.config.parent / "load"
    folder.mkdir()
    for number in range(60):
        (folder / f"{number}.txt").write_bytes(f"load {number}".encode())
    semq_at(network.sender, "msg", "send", "--to", "56001", *(f"--file={path}" for path in sorted(folder.iterdir())))
    until(lambda: any(body in wanted for body in bodies(hook)))
    os.kill(program_of(network.receiver), signal.SIGKILL)
    until(lambda: wanted <= set(bodies(hook)))
    until(lambda: unacknowledged(network) == 0)


def unacknowledged(network: Network) -> int:
    """Return the number of documents that the receiver's application has not acknowledged."""
    rows = json.loads(semq_at(network.receiver, "msg", "list", "--side", "inbound", "--json"))
    return sum(row.get("app_status") in ("NEW", "GIVEN") for row in rows)


def program_of(node: NodeProcess) -> int:
    """Return the id of the process that serves the webhooks of a node."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"semq.webhooks" in words and str(node.place.config).encode() in words:
                return int(folder.name)
    raise AssertionError("no such process")


def test_changed_webhooks_are_used_after_a_reload_without_a_gap(network_and_hook: tuple[Network, Hook]) -> None:
    network, hook = network_and_hook
    config = network.receiver.place.config
    before = config.read_text()
    next_secret = b64encode(bytes([1]) * 32).decode()
    more = f'next_secret = "whsec_{next_secret}"\nheaders = {{Authorization = "Bearer abc"}}\n'
    config.write_text(before.replace("timeout_s = 20\n", f"timeout_s = 20\n{more}"))
    for number in range(5):
        semq_at(network.sender, "msg", "send", "--to", "56001", "--key", f"R{number}", body=b"reload %d" % number)
        if number == 1:
            assert "webhooks" in semq_at(network.receiver, "node", "reload")
    until(lambda: all(b"reload %d" % number in bodies(hook) for number in range(5)))
    semq_at(network.sender, "msg", "send", "--to", "56001", "--key", "R5", body=b"after")

    def last() -> ReceivedRequest | None:
        return next((request for request in hook.received if request.body == b"after"), None)

    request = until(last)
    assert request.headers["authorization"] == "Bearer abc"
    assert len(request.headers["webhook-signature"].split(" ")) == 2
    config.write_text(before)
    semq_at(network.receiver, "node", "reload")
