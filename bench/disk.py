"""How long the disk takes to make a page durable: the price of a commit, printed beside every figure that hangs on it.

Called by ``__main__`` at the start of a run, in the folder where the databases will lie.
"""

import os
import time
from pathlib import Path
from statistics import median, quantiles
from typing import Any

PAGE = os.urandom(8192)


def probe(folder: Path, samples: int = 200) -> dict[str, Any]:
    """Append a page and ``fdatasync`` it, so many times; median and p95 in microseconds."""
    path = folder / "fdatasync.probe"
    took = []
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        for _ in range(samples):
            os.write(file, PAGE)
            started = time.perf_counter()
            os.fdatasync(file)
            took.append((time.perf_counter() - started) * 1e6)
    finally:
        os.close(file)
        path.unlink()
    return {"samples": samples, "p50_us": round(median(took)), "p95_us": round(quantiles(took, n=20)[18])}
