"""A probe of the disk: the time of a durable write of one page, repeated during a measurement.

Latency depends on this time: a commit waits for one ``fdatasync``. The probe is a separate process (``python -m
bench.disk FOLDER``), so that it waits only for the disk.
"""

import asyncio
import json
import os
import select
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import quantiles
from typing import Any

PAGE = os.urandom(8192)
PAGES = 512  # overwritten repeatedly, like the segments of Postgres' log
INTERVAL_S = 0.02  # pause between two writes


@asynccontextmanager
async def probed(folder: Path) -> AsyncIterator[dict[str, Any]]:
    """Probe the disk of ``folder`` during the block; afterwards the yielded dictionary has the figures."""
    figures: dict[str, Any] = {}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "bench.disk", str(folder),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        await process.stdout.readline()  # the probe has begun
        yield figures
    except BaseException:
        process.kill()
        raise
    finally:
        output, _ = await process.communicate(b"")
    figures |= json.loads(output)


def probe(folder: Path) -> dict[str, Any]:
    """Write a page and call ``fdatasync`` until standard input is closed; return the figures."""
    path = folder / "fdatasync.probe"
    took: list[float] = []
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(file, PAGE * PAGES)
        os.fsync(file)
        print("begun", flush=True)
        while len(took) < 2 or not select.select([sys.stdin], [], [], INTERVAL_S)[0]:
            os.pwrite(file, PAGE, len(took) % PAGES * len(PAGE))
            started = time.perf_counter()
            os.fdatasync(file)
            took.append((time.perf_counter() - started) * 1e6)
    finally:
        os.close(file)
        path.unlink()
    cuts = quantiles(took, n=100, method="inclusive")
    return {
        "samples": len(took), "p50_us": round(cuts[49]), "p99_us": round(cuts[98]), "max_us": round(max(took)),
    }  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(probe(Path(sys.argv[1]))))
