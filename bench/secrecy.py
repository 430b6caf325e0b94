"""``./run bench secrecy``: what certificates, TLS and seals cost, beside networks without them, in one run.

    ./run bench secrecy [--messages N] [--rounds N] [--size BYTES] [--json]

Two networks run side by side on one machine: a plain one (no certificates, links without TLS), and a secure one (links
by TLS 1.3, certificates at both ends, receipts signed). Rounds on the plain one, on the secure one with documents in
clear, and on the secure one with sealed documents take turns, so that whatever else the machine does meets all alike;
the network that rests costs next to nothing. Rates and the processor time of the three nodes are medians over the
rounds, ratios medians of the ratios within each turn.

| ratio                     | meaning                                                             |
|---------------------------|---------------------------------------------------------------------|
| ``encryption_on_to_off``  | documents sealed, to documents in clear on the same secure network  |
| ``secure_to_plain``       | TLS, certificates, signed receipts, documents in clear, to nothing  |
| ``everything_to_nothing`` | all of it, to nothing of it                                         |
"""

from collections.abc import Coroutine
from pathlib import Path
from statistics import median
from typing import Any

from bench import cli, phases
from bench.network import BenchNetwork

WARM_UP = 500
PLAIN, SECURE, SEALED = KINDS = ("plain", "secure", "sealed")
RATIOS = {
    "encryption_on_to_off": (SEALED, SECURE),
    "secure_to_plain": (SECURE, PLAIN),
    "everything_to_nothing": (SEALED, PLAIN),
}
SUMMARY = """
{messages} documents of {size} bytes a round, {rounds} rounds, online from submit at A until all nodes are clean
  plain links, nothing signed      {plain_per_s:>6}/s  {plain_us:>6} µs of processor time a document
  TLS, signed receipts             {secure_per_s:>6}/s  {secure_us:>6} µs  {secure_to_plain:.2f} of the rate of it
  TLS, signed receipts, sealed     {sealed_per_s:>6}/s  {sealed_us:>6} µs  {everything_to_nothing:.2f} of it; \
{encryption_on_to_off:.2f} of the line above
"""


def main(argv: list[str]) -> int:
    """Run the benchmark; return the exit status."""
    parser = cli.parser_of("secrecy", __doc__)
    parser.add_argument("--messages", type=cli.count, default=5000, metavar="N", help="documents in a round (5000)")
    parser.add_argument("--rounds", type=cli.count, default=5, metavar="N", help="rounds of each kind (5)")
    parser.add_argument("--size", type=cli.size, default=1024, metavar="BYTES", help="bytes in a document (1024)")
    given = parser.parse_args(argv)

    def measure(folder: Path) -> Coroutine[Any, Any, dict[str, Any]]:
        return run(folder, given.messages, given.rounds, given.size)

    return cli.in_folder(measure, given, lambda found: SUMMARY.format(**found))


async def run(folder: Path, messages: int, rounds: int, size: int) -> dict[str, Any]:
    """Start both networks and return the figures."""
    rates: dict[str, list[int]] = {kind: [] for kind in KINDS}
    times: dict[str, list[float]] = {kind: [] for kind in KINDS}
    async with opened(folder / "plain", secure=False) as plain, opened(folder / "secure", secure=True) as secure:
        of_plain, of_secure = phases.Bench(plain, size), phases.Bench(secure, size)
        for bench in (of_plain, of_secure):
            await bench.network.watched(phases.online(bench, WARM_UP))
        for _ in range(rounds):
            for kind in KINDS:
                bench = of_plain if kind == PLAIN else of_secure
                bench.encrypt = kind == SEALED
                result = await bench.network.watched(phases.online(bench, messages))
                rates[kind].append(result["per_s"])
                times[kind].append(result["cpu_us"])
                cli.show(kind, result)
    account = {fault: count + of_secure.account[fault] for fault, count in of_plain.account.items()}
    return {"messages": messages, "rounds": rounds, "size": size} | figures(rates, times) | account


def figures(rates: dict[str, list[int]], times: dict[str, list[float]]) -> dict[str, Any]:
    """Return the summary of the rounds."""
    ratios = {
        name: round(median(on / off for on, off in zip(rates[of], rates[to], strict=True)), 3)
        for name, (of, to) in RATIOS.items()
    }
    return (
        ratios
        | {f"{kind}_per_s": round(median(each)) for kind, each in rates.items()}
        | {f"{kind}_us": round(median(each)) for kind, each in times.items()}
        | {"all": rates}
    )


def opened(folder: Path, *, secure: bool) -> BenchNetwork:
    """Run a network in a folder of its own."""
    folder.mkdir()
    return BenchNetwork(folder, secure=secure)
