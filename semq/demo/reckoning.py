"""The last scene: every node extracts its ledger, and Spark compares the three. All of it by the command line, as
processes.

Where Spark is not installed it is fetched first, when everything else has been shown; where that cannot be done the
scene is left out, and says so.
"""

import asyncio
import csv
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from semq.demo.stage import HUB, Place

RUN = Path(__file__).parents[2] / "run"
NEEDED = ("pyarrow", "pyspark")
RECONCILE = (sys.executable, "-P", "-m", "spark_reconcile")
MEMORY = "1g"
FORGOTTEN = "hub_has_no_trace"
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Reckoning:
    """What the reconciliation found; ``--json`` prints it as ``reconcile``."""

    outcome: str  #: of the run, or left_out
    exit_code: int = 0
    messages: int = 0
    verdicts: dict[str, int] = field(default_factory=dict)
    report: str = ""
    planted: list[dict[str, str]] = field(default_factory=list)
    found: int = 0  #: of what was planted
    forgotten: int = 0  #: passed on by the hub just before it was killed: it writes its ledger of forwards behind them
    strange: int = 0  #: all other exceptions
    said: str = ""

    @property
    def is_good(self) -> bool:
        """Whether exactly what was planted was found; a scene that was left out says nothing."""
        if self.outcome == "left_out":
            return True
        published = self.outcome in ("met", "breached")
        return published and self.found == len(self.planted) and not self.strange

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


async def reckon(places: Mapping[str, Place], tell: Tell, *, inject: bool, hub_died: bool) -> Reckoning:
    """Extract, plant if asked for, compare."""
    if not await _is_installed(tell):
        return Reckoning("left_out", said="The reconciliation needs the packages that `./run setup spark` installs.")
    tell("every node writes what its ledger says of today")
    extracts = [_call("extract", "--config", place.config, "--business-date", "today") for place in places.values()]
    for code, told, said in await asyncio.gather(*extracts):
        if code:
            return Reckoning("failed", code, said=said or str(told))
    hub = ("--config", str(places[HUB].config), "--business-date", "today")
    planted: list[dict[str, str]] = []
    if inject:
        code, told, said = await _call("plant", *hub)
        if code:
            return Reckoning("failed", code, said=said)
        planted = told["planted"]
        for one in planted:
            tell(f"planted: {one['verdict']}: {one['how']}")
    tell("Spark compares what sender, hub and receiver say of each document; this takes it some seconds")
    code, told, said = await _call("run", *hub, "--memory", MEMORY)
    if not told.get("report"):
        return Reckoning(told.get("outcome", "failed"), code, said=said)
    counts = {name: count for name, count in told["verdicts"].items() if count}
    seen = _sort(Path(told["report"]).parent / "exceptions.csv", planted, hub_died=hub_died)
    return Reckoning(told["outcome"], code, told["messages"], counts, told["report"], planted, *seen)


def _sort(exceptions: Path, planted: list[dict[str, str]], *, hub_died: bool) -> tuple[int, int, int]:
    """How many of the listed exceptions were planted, are what a killed hub forgets, and are neither."""
    wanted = {(one["lk0"], one["verdict"]) for one in planted}
    seen = Counter[str]()
    with exceptions.open(encoding="utf-8-sig", newline="") as sheet:
        for row in csv.DictReader(sheet):
            is_wanted = (row["Message (LK0)"], row["Verdict"]) in wanted
            is_forgotten = hub_died and row["Finding"] == FORGOTTEN
            seen["found" if is_wanted else "forgotten" if is_forgotten else "strange"] += 1
    return seen["found"], seen["forgotten"], seen["strange"]


async def _is_installed(tell: Tell) -> bool:
    if all(find_spec(name) for name in NEEDED):
        return True
    if not RUN.exists():
        return False
    tell("fetching Spark for the reconciliation, about 500 MB, once (--no-reconcile leaves it out)")
    process = await asyncio.create_subprocess_exec(str(RUN), "setup", "spark", stdin=DEVNULL, stdout=DEVNULL)
    return await process.wait() == 0


async def _call(command: str, *arguments: object) -> tuple[int, dict[str, Any], str]:
    """A command of the reconciliation: exit status, what it told, the last line that it said."""
    process = await asyncio.create_subprocess_exec(
        *RECONCILE, command, *map(str, arguments), "--json", stdin=DEVNULL, stdout=PIPE, stderr=PIPE
    )
    try:
        out, err = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    said = err.decode("utf-8", "replace").strip().splitlines()
    told = out.decode().strip().splitlines()
    return process.returncode or 0, json.loads(told[-1]) if told else {}, said[-1] if said else ""
