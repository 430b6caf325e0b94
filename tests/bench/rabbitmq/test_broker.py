"""The load of ``./run bench broker``: every phase transports its messages; no figure is compared."""

from pathlib import Path

from bench.lone_node import node
from bench.rabbitmq.broker import BrokerLoad, _ratios, _table


async def test_every_phase_of_the_load_has_a_rate_and_the_durable_queue_is_empty_at_the_end(tmp_path: Path) -> None:
    with node(tmp_path) as port:
        load = BrokerLoad(port, 60, 100)
        for phase in (load.durable_publish, load.durable_consume, load.durable_both, load.transient, load.fan_out):
            assert await phase() > 0
        async with load.channel() as channel:
            assert (await channel.declare_queue("bench.durable", durable=True)).message_count == 0


def test_the_table_has_all_figures() -> None:
    ours, theirs = {"transient_per_s": 300.0}, {"transient_per_s": 200.0}
    shown = _table({"node": ours, "rabbitmq": theirs, "ratio": _ratios(ours, theirs)})
    assert shown.splitlines()[1].split() == ["transient_per_s", "300.0", "200.0", "1.5"]
