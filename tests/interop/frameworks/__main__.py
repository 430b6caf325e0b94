"""``./run python -m tests.interop.frameworks``: install pinned frameworks in a temporary environment, and run them.

It needs an index of Python packages. Exit status 0: every program has ended as it should.
"""

import asyncio
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from bench.lone_node import node
from tests.interop.institutions import RECEIVER, Institutions, between_institutions, url_of

PACKAGES = (
    "faststream[rabbit]==0.7.8",
    "dramatiq[rabbitmq]==2.2.1",
    "nameko==2.14.1",
    "eventlet==0.41.3",
    "kombu==5.7.0",
    "celery==5.7.0",
)
FOLDER = Path(__file__).parent
WORKLOADS = sorted(FOLDER.glob("*_workload.py"))
APPLICATIONS = sorted(FOLDER.glob("*_application.py"))
LIMIT_S = 180


def main() -> int:
    """Return the exit status."""
    with tempfile.TemporaryDirectory(prefix="semq-frameworks-") as name:
        environment = Path(name) / "environment"
        venv.create(environment, with_pip=True)
        python = str(environment / "bin" / "python")
        subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *PACKAGES], check=True)
        with node(Path(name)) as port:
            failed = sum(run(python, program, f"amqp://guest:guest@127.0.0.1:{port}/") for program in WORKLOADS)

        async def run_applications(institutions: Institutions) -> int:
            urls = [url_of(node) for node in (institutions.sender, institutions.receiver)]
            return sum([await asyncio.to_thread(run, python, program, *urls, RECEIVER) for program in APPLICATIONS])

        failed += between_institutions(run_applications)
    return min(failed, 1)


def run(python: str, program: Path, *arguments: str) -> bool:
    """Run a program; return whether it has failed."""
    try:
        status = str(subprocess.run([python, str(program), *arguments], timeout=LIMIT_S, check=False).returncode)
    except subprocess.TimeoutExpired:
        status = "time limit"
    print(f"{program.name}: {'ok' if status == '0' else f'failed, status {status}'}", flush=True)
    return status != "0"


if __name__ == "__main__":
    sys.exit(main())
