"""The last step of the demo: every node extracts its ledger, and Spark compares the extracts.

The step runs the commands that operators use. If Spark is not installed, the step installs it, or is skipped.
"""

import asyncio
import csv
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections import Counter
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any

from msgspec import Struct, field

from semq.demo.configuration import COLLECTOR, EXTRACTS, RECEIVER, REPORTS, SENDER
from semq.installation.configuration import HUB, NodePlace

RUN = Path(__file__).parents[2] / "run"
REQUIRED_PACKAGES = ("pyarrow", "pyspark")
COMMAND = (sys.executable, "-P", "-m", "spark_reconcile")
DATE = ("--business-date", "today")
HUB_LINE_LOST = "hub_has_no_trace"  # finding of the reconciliation
IDLE_S, COLLECTS_MAX = 2, 15  # seconds that one `collect` waits for an extract; maximum number of calls
Say = Callable[[str], None]


class Reconciliation(Struct):
    """The result of the step; ``--json`` prints it as ``reconcile``."""

    outcome: str  #: outcome of `semq reconcile run`; left_out: the step was skipped; failed: a command failed
    messages: int = 0
    verdicts: dict[str, int] = field(default_factory=dict)
    report: str = ""
    planted: list[dict[str, str]] = field(default_factory=list)
    found: int = 0  #: planted defects that the report lists
    forgotten: int = 0  #: messages whose line the hub has not written, because it was killed
    strange: int = 0  #: all other exceptions in the report
    detail: str = ""  #: last line of a failed command, or the reason why the step was skipped
    repaired: dict[str, dict[str, int]] = field(default_factory=dict)  #: counts of repairs by node and result

    @property
    def is_good(self) -> bool:
        """Whether the step was skipped, or found all planted exceptions and no others except those of a killed hub."""
        are_only_planted = self.found == len(self.planted) and not self.strange
        return self.outcome == "left_out" or (self.outcome in ("met", "breached") and are_only_planted)


async def reconcile(
    places: Mapping[str, NodePlace], say: Say, *, inject: bool, hub_died: bool, secure: bool = False
) -> Reconciliation:
    """Extract the ledgers, plant defects if ``inject``, and compare the ledgers.

    ``secure``: collect signed extracts before the comparison, and apply the signed repair list after it.
    ``hub_died``: the hub was killed during the demo.
    """
    if not await _install_spark(say):
        return Reconciliation(
            "left_out", detail="It needs packages: `pip install 'WHEEL[spark]'`, in a checkout `./run setup spark`."
        )
    try:
        say("every node extracts today's lines of its ledger")
        # 10008 is last: it may send its extract as a document, and no extract may contain lines of that document.
        for name in sorted(places, key=lambda name: name == SENDER):
            await run_command("extract", "--config", places[name].config, *DATE)
        if secure:
            await _collect(places, say)
        planted = await _plant(places, say, secure=secure) if inject else []
        result = await _compare(places.get(HUB, places[RECEIVER]), say, planted, hub_died=hub_died)
        if secure:
            await _repair(places, say, result)
    except CalledProcessError as error:
        return Reconciliation("failed", detail=f"{error.cmd}: {error.stderr}")
    return result


async def _collect(places: Mapping[str, NodePlace], say: Say) -> None:
    """Receive the extracts of both institutions, and store them in the folder of the hub.

    After COLLECTS_MAX calls, the step ends without the missing extracts.
    """
    say(f"the signed extracts are sent as documents to {RECEIVER}, which collects them for the hub")
    storage = ("--user", COLLECTOR, "--extracts", places[HUB].folder / EXTRACTS, "--idle", IDLE_S)
    arrived: set[str] = set()
    for _ in range(COLLECTS_MAX):
        arrived |= set((await run_command("collect", "--config", places[RECEIVER].config, *storage))["extracts"])
        if len(arrived) == len((SENDER, RECEIVER)):
            break


async def _plant(places: Mapping[str, NodePlace], say: Say, *, secure: bool) -> list[dict[str, str]]:
    keys = [argument for place in places.values() for argument in ("--signed-by", place.config)] if secure else []
    answer = await run_command("plant", "--config", places[HUB].config, *DATE, *keys)
    defects: list[dict[str, str]] = answer["planted"]
    for defect in defects:
        say(f"planted: {defect['verdict']}: {defect['how']}")
    return defects


async def _compare(place: NodePlace, say: Say, planted: list[dict[str, str]], *, hub_died: bool) -> Reconciliation:
    say("Spark compares the ledgers of all nodes, which takes some seconds")
    result = await run_command("run", "--config", place.config, *DATE, "--memory", "1g")
    verdicts = {name: number for name, number in result["verdicts"].items() if number}
    seen = count_exceptions(Path(result["report"]).parent / "exceptions.csv", planted, hub_died=hub_died)
    return Reconciliation(result["outcome"], result["messages"], verdicts, result["report"], planted, *seen)


async def _repair(places: Mapping[str, NodePlace], say: Say, reconciliation: Reconciliation) -> None:
    for name in (SENDER, RECEIVER):
        reports = ("--reports", places[name].folder / REPORTS, *DATE, "--yes")
        answer = await run_command("apply", "--config", places[name].config, *reports)
        counts = reconciliation.repaired[name] = answer["counts"]
        repairs = ", ".join(f"{number} {result}" for result, number in counts.items())
        say(f"{name} applies the repair list that the hub has signed: {repairs or 'nothing to do'}")


def count_exceptions(table: Path, planted: list[dict[str, str]], *, hub_died: bool) -> tuple[int, int, int]:
    """Return the numbers of planted exceptions, of those caused by the kill of the hub, and of the rest."""
    expected = {(defect["lk0"], defect["verdict"]) for defect in planted}
    seen = Counter[str]()
    with table.open(encoding="utf-8-sig", newline="") as stream:
        for row in csv.DictReader(stream):
            is_planted = (row["Message (LK0)"], row["Verdict"]) in expected
            is_forgotten = hub_died and row["Finding"] == HUB_LINE_LOST
            seen["planted" if is_planted else "forgotten" if is_forgotten else "strange"] += 1
    return seen["planted"], seen["forgotten"], seen["strange"]


async def _install_spark(say: Say) -> bool:
    """Install Spark if it is missing; return whether it is installed afterwards."""
    if all(find_spec(name) for name in REQUIRED_PACKAGES):
        return True
    if not RUN.exists():
        return False
    say("installing Spark for the reconciliation, about 1 GB on the disk, once (--no-reconcile skips it)")
    process = await asyncio.create_subprocess_exec(str(RUN), "setup", "spark", stdin=DEVNULL, stdout=DEVNULL)
    return await process.wait() == 0


async def run_command(command: str, *arguments: object, variables: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Run a command and return its JSON result. Raises CalledProcessError if it fails without a report.

    ``variables``: further environment variables.
    """
    process = await asyncio.create_subprocess_exec(
        *COMMAND, command, *map(str, arguments), "--json",
        stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env={**os.environ, **(variables or {})},
    )  # fmt: skip
    try:
        out, err = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    last_line = out.decode().strip().rpartition("\n")[2]
    result: dict[str, object] = json.loads(last_line or "{}")
    if process.returncode and not result.get("report"):
        fault = err.decode("utf-8", "replace").strip().rpartition("\n")[2] or last_line
        raise CalledProcessError(process.returncode, command, stderr=fault)
    return result
