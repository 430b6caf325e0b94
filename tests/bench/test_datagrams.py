"""``./run bench datagrams``: every document is received or counted as lost, and the relay loses its share."""

import asyncio
import json
import socket

import pytest

from bench.__main__ import main
from bench.datagrams import counted
from bench.udp_relay import DatagramFaults, UdpRelay
from tests.bench.runs import run_bench
from tests.waiting import until


def test_each_sent_datagram_must_be_received_or_lost() -> None:
    a, hub_a = {"sent": 10}, {"received": 7, "lost": 2, "full": 1}
    hub_b, b = {"sent": 7}, {"received": 6, "lost": 1, "full": 0}
    assert counted(a, b, hub_a, hub_b) == (True, 4)
    assert counted({"sent": 11}, b, hub_a, hub_b) == (False, 4)
    assert counted(a, b, hub_a, {"sent": 8}) == (False, 4)


@pytest.mark.parametrize(("loss", "least", "most"), [(0.0, 1000, 1000), (0.2, 700, 880), (0.999, 0, 50)])
async def test_the_relay_loses_its_share(loss: float, least: int, most: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as target:
        target.bind(("127.0.0.1", 0))
        relay = UdpRelay(target.getsockname()[1], DatagramFaults(loss=loss))
        await relay.start()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for _ in range(10):
                for _ in range(100):
                    sender.sendto(b"x", ("127.0.0.1", relay.port))
                await asyncio.sleep(0)
        await until(lambda: relay.passed + relay.lost == 1000)
        assert least <= relay.passed <= most
        relay.stop()


def test_a_short_run_has_all_figures() -> None:
    done = run_bench(
        "datagrams", "--loss", "0.05", "--messages", "300", "--size", "200", "--rate", "100", "--seconds", "1",
        "--rate-of-bulk", "250", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["sent"], found["loss"], found["connection_received"]) == (300, 0.05, 300)
    assert found["received"] == 300 - found["lost_to_hub"] - found["lost_to_b"] < 300
    assert found["as_datagrams"] + found["by_connection"] == 300
    assert 0 < found["p50_ms"] <= found["p99_ms"]
    assert found["per_s"] > 0


def test_a_loss_of_everything_is_refused() -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["datagrams", "--loss", "1"])
    assert exit_info.value.code == 2
