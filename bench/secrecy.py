"""``./run bench secrecy``: the cost of certificates, TLS and seals, compared with a network without them, in one run.

    ./run bench secrecy [--messages N] [--rounds N] [--size BYTES] [--json]

Two networks run at the same time on one machine: a plain one (no certificates, links without TLS), and a secure one
(links by TLS 1.3, certificates at both ends, signed receipts). There are three kinds of rounds: ``plain`` on the plain
network, ``secure`` with documents in clear and ``sealed`` with sealed documents on the secure network. They take turns,
so that other load of the machine affects all kinds equally. Rates and the processor time of the three nodes are medians
of the rounds. Each ratio is computed for each cycle of the three kinds; the figure is the median over the cycles.

| ratio                     | rate of | divided by the rate of |
|---------------------------|---------|------------------------|
| ``encryption_on_to_off``  | sealed  | secure                 |
| ``secure_to_plain``       | secure  | plain                  |
| ``everything_to_nothing`` | sealed  | plain                  |
"""

from collections.abc import Coroutine
from pathlib import Path
from statistics import median
from typing import Any

from bench import cli, phases
from bench.network import BenchNetwork

WARM_UP = 500  # documents before the first round
PLAIN, SECURE, SEALED = KINDS = ("plain", "secure", "sealed")
RATIOS = {  # kinds of rounds whose rates are divided
    "encryption_on_to_off": (SEALED, SECURE),
    "secure_to_plain": (SECURE, PLAIN),
    "everything_to_nothing": (SEALED, PLAIN),
}
SUMMARY = """
{messages} documents of {size} bytes a round, {rounds} rounds, online, from submission at A until no node has rows left
  plain links, nothing signed      {plain_per_s:>6}/s  {plain_us:>6} µs of processor time a document
  TLS, signed receipts             {secure_per_s:>6}/s  {secure_us:>6} µs  {secure_to_plain:.2f} of the plain rate
  TLS, signed receipts, sealed     {sealed_per_s:>6}/s  {sealed_us:>6} µs  {everything_to_nothing:.2f} of the plain \
rate; {encryption_on_to_off:.2f} of the line above
"""


def main(argv: list[str]) -> int:
    """Run the benchmark; return the exit status."""
    parser = cli.parser_of("secrecy", __doc__)
    parser.add_argument("--messages", type=cli.count, default=5000, metavar="N", help="documents in a round (5000)")
    parser.add_argument("--rounds", type=cli.count, default=5, metavar="N", help="rounds of each kind (5)")
    parser.add_argument("--size", type=cli.size, default=1024, metavar="BYTES", help="bytes in a document (1024)")
    arguments = parser.parse_args(argv)

    def measure(folder: Path) -> Coroutine[Any, Any, dict[str, Any]]:
        return run(folder, arguments.messages, arguments.rounds, arguments.size)

    return cli.in_folder(measure, arguments, lambda result: SUMMARY.format(**result))


async def run(folder: Path, messages: int, rounds: int, size: int) -> dict[str, Any]:
    """Start both networks and return the figures."""
    rates: dict[str, list[int]] = {kind: [] for kind in KINDS}
    times: dict[str, list[float]] = {kind: [] for kind in KINDS}
    async with (
        network_in(folder / "plain", secure=False) as plain,
        network_in(folder / "secure", secure=True) as secure,
    ):
        plain_bench, secure_bench = phases.Bench(plain, size), phases.Bench(secure, size)
        for bench in (plain_bench, secure_bench):
            await bench.network.watched(phases.online(bench, WARM_UP))
        for _ in range(rounds):
            for kind in KINDS:
                bench = plain_bench if kind == PLAIN else secure_bench
                bench.encrypt = kind == SEALED
                result = await bench.network.watched(phases.online(bench, messages))
                rates[kind].append(result["per_s"])
                times[kind].append(result["cpu_us"])
                cli.show(kind, result)
    faults = {fault: count + secure_bench.faults[fault] for fault, count in plain_bench.faults.items()}
    return {"messages": messages, "rounds": rounds, "size": size} | figures(rates, times) | faults


def figures(rates: dict[str, list[int]], times: dict[str, list[float]]) -> dict[str, Any]:
    """Return the summary of the rounds."""
    ratios = {
        name: round(median(a / b for a, b in zip(rates[dividend], rates[divisor], strict=True)), 3)
        for name, (dividend, divisor) in RATIOS.items()
    }
    return (
        ratios
        | {f"{kind}_per_s": round(median(values)) for kind, values in rates.items()}
        | {f"{kind}_us": round(median(values)) for kind, values in times.items()}
        | {"all": rates}
    )


def network_in(folder: Path, *, secure: bool) -> BenchNetwork:
    """Return a network in a new folder."""
    folder.mkdir()
    return BenchNetwork(folder, secure=secure)
