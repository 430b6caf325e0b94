"""A cluster of Spark's own master: a master and two workers, each on a host of its own.

As root, a host is a network namespace with an address, all in a network of their own; otherwise it is this machine.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from spark_reconcile.spark import session
from spark_reconcile.spark.java import java_home
from tests.waiting import until_sync

ROOT = Path(__file__).parents[3]
SPARK_HOME = Path(str(pyspark.__file__)).parent
DRIVER, MASTER, WORKERS = 1, 2, (3, 4)  # numbers of the hosts
_NETWORK = "10.77.0"
_HOLD = ["sleep", "infinity"]  # the process that keeps a namespace
_EXECUTOR = b"CoarseGrainedExecutorBackend"
_URL = re.compile(r"spark://[0-9.]+:[0-9]+")


class ClusterHost:
    """A place for processes. Without ``holder``, this machine."""

    def __init__(self, holder: int | None, address: str) -> None:
        self._holder, self.address = holder, address

    @property
    def within(self) -> list[str]:
        """The beginning of a command that runs on this host."""
        return ["nsenter", f"--net=/proc/{self._holder}/ns/net"] if self._holder else []

    def cut(self) -> None:
        """Unplug the network cable."""
        if self._holder:
            subprocess.run([*self.within, "ip", "link", "set", "eth0", "down"], check=True)


@contextmanager
def hosts() -> Iterator[dict[int, ClusterHost]]:
    """Yield hosts by number: the driver's, the master's, those of two workers."""
    numbers = (DRIVER, MASTER, *WORKERS)
    outer = subprocess.run(["unshare", "--net", "true"], check=False, capture_output=True)
    if outer.returncode:
        yield {number: ClusterHost(None, "127.0.0.1") for number in numbers}
        return
    with ExitStack() as stack:

        def namespace() -> int:
            process = stack.enter_context(subprocess.Popen(["unshare", "--net", *_HOLD]))
            stack.callback(process.kill)
            own = Path("/proc/self/ns/net").readlink()
            until_sync(lambda: Path(f"/proc/{process.pid}/ns/net").readlink() != own)
            return process.pid

        switch = namespace()

        def run(holder: int, *words: object) -> None:
            command = ["nsenter", f"--net=/proc/{holder}/ns/net", "ip", *map(str, words)]
            subprocess.run(command, check=True, capture_output=True)

        run(switch, "link", "add", "br0", "type", "bridge")
        run(switch, "link", "set", "br0", "up")
        found = {}
        for number in numbers:
            holder = namespace()
            run(switch, "link", "add", f"p{number}", "type", "veth", "peer", "name", "eth0", "netns", holder)
            run(switch, "link", "set", f"p{number}", "master", "br0", "up")
            run(holder, "link", "set", "lo", "up")
            run(holder, "addr", "add", f"{_NETWORK}.{number}/24", "dev", "eth0")
            run(holder, "link", "set", "eth0", "up")
            found[number] = ClusterHost(holder, f"{_NETWORK}.{number}")
        yield found


class ClusterWorker:
    """A worker and its executors. Each has a folder for the data that its executors exchange."""

    def __init__(self, process: subprocess.Popen[bytes], host: ClusterHost, folder: Path) -> None:
        self.process, self.host, self.folder = process, host, folder

    @property
    def executors(self) -> list[int]:
        """The process ids of its executors that run."""
        children = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        pids = [pid for task in children for pid in task.read_text().split()]
        return [int(pid) for pid in pids if _EXECUTOR in Path(f"/proc/{pid}/cmdline").read_bytes()]

    @property
    def started_executors(self) -> int:
        """The number of executors that it has started so far."""
        return len(list((self.folder / "work").glob("app-*/[0-9]*")))

    def lose(self) -> None:
        """Cut the host from the network, and end its processes and its exchanged data."""
        self.host.cut()
        for pid in [*self.executors, self.process.pid]:
            os.kill(pid, 9)
        self.process.wait()
        shutil.rmtree(self.folder / "local", ignore_errors=True)


class StandaloneCluster:
    """The running cluster."""

    def __init__(
        self, url: str, all_hosts: Mapping[int, ClusterHost], workers: list[ClusterWorker], folder: Path
    ) -> None:
        self.url, self.workers, self._hosts, self._folder = url, workers, all_hosts, folder

    def start(self, *command: object, conf: Mapping[str, str] | None = None, **variables: str) -> subprocess.Popen[str]:
        """Start a command on the driver's host. ``conf``: further settings of Spark."""
        folder = self._folder / "conf"
        folder.mkdir(exist_ok=True)
        settings = {
            "spark.executor.memory": "600m", "spark.executor.cores": "1", "spark.driver.memory": "768m",
            "spark.driver.extraJavaOptions": session.FEW_LINES, "spark.executor.extraJavaOptions": session.FEW_LINES,
            "spark.ui.enabled": "false", **(conf or {}),
        }  # fmt: skip
        lines = (f"{key} {value}\n" for key, value in settings.items())
        (folder / "spark-defaults.conf").write_text("".join(lines))
        host = self._hosts[DRIVER]
        environment = _environment(host) | {"SPARK_CONF_DIR": str(folder)} | variables
        words = [*host.within, *map(str, command)]
        return subprocess.Popen(words, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def _environment(host: ClusterHost) -> dict[str, str]:
    return {
        **os.environ, "JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": host.address, "SPARK_HOME": str(SPARK_HOME),
        "PYTHONPATH": str(ROOT), "SPARK_DAEMON_JAVA_OPTS": session.FEW_LINES, "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_MASTER_OPTS": "-Dspark.worker.timeout=30", "PYSPARK_DRIVER_PYTHON": sys.executable,
    }  # fmt: skip


@contextmanager
def standalone(folder: Path) -> Iterator[StandaloneCluster]:
    """Yield a running cluster with files below ``folder``; its processes end with the block."""
    with hosts() as found, ExitStack() as stack:

        def daemon(name: str, host: ClusterHost, kind: str, *words: str, **variables: str) -> subprocess.Popen[bytes]:
            log = stack.enter_context((folder / f"{name}.log").open("wb"))
            command = [*host.within, str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *words]
            environment = _environment(host) | variables
            process = stack.enter_context(subprocess.Popen(command, stdout=log, stderr=log, env=environment))
            stack.callback(_end, process)
            return process

        daemon("master", found[MASTER], "master.Master", "--host", found[MASTER].address, "--port", "0")
        url = until_sync(lambda: _URL.search((folder / "master.log").read_text()))[0]
        workers = []
        for number in WORKERS:
            own = folder / f"worker-{number}"
            (own / "local").mkdir(parents=True)
            words = ("--host", found[number].address, "--cores", "2", "--memory", "2g", "--work-dir", str(own / "work"))
            process = daemon(own.name, found[number], "worker.Worker", *words, url, SPARK_LOCAL_DIRS=str(own / "local"))
            workers.append(ClusterWorker(process, found[number], own))
        logs = [folder / f"{worker.folder.name}.log" for worker in workers]
        until_sync(lambda: all("Successfully registered" in log.read_text() for log in logs))
        yield StandaloneCluster(url, found, workers, folder)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a daemon and the processes that it has started."""
    children = [
        pid for task in Path(f"/proc/{process.pid}/task").glob("*/children") for pid in task.read_text().split()
    ]
    for pid in [*map(int, children), process.pid]:
        try:
            os.kill(pid, 9)
        except ProcessLookupError:
            continue
    process.wait()
