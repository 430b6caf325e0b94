"""``./run python -m tests.interop.frameworks``: install pinned frameworks in a temporary environment, and run them.

It needs an index of Python packages. Exit status 0: every workload has ended as it should.
"""

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from bench.lone_node import node

# Program in this folder | packages
WORKLOADS = {
    "faststream_workload.py": ("faststream[rabbit]==0.7.8",),
    "dramatiq_workload.py": ("dramatiq[rabbitmq]==2.2.1",),
}
LIMIT_S = 180


def main() -> int:
    """Return the exit status."""
    failed = 0
    with tempfile.TemporaryDirectory(prefix="semq-frameworks-") as name, node(Path(name)) as port:
        environment = Path(name) / "environment"
        venv.create(environment, with_pip=True)
        python = str(environment / "bin" / "python")
        packages = [package for each in WORKLOADS.values() for package in each]
        subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True)
        for program, versions in WORKLOADS.items():
            command = [python, str(Path(__file__).with_name(program)), f"amqp://guest:guest@127.0.0.1:{port}/"]
            status = subprocess.run(command, timeout=LIMIT_S, check=False).returncode
            print(f"{program} ({', '.join(versions)}): {'ok' if status == 0 else f'failed, status {status}'}")
            failed += status != 0
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
