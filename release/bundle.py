"""``./run bundle``: one archive that installs SEMQ on machines without a network: packages and documents."""

import argparse
import json
import os
import platform
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from release import tour
from release.packages import ROOT, build, locked_versions
from semq import __version__

OUTPUT = ROOT / "var" / "bundle"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
NAME = f"semq-{__version__}-python{PYTHON}-{platform.machine()}"
# What operators need beside the packages
FILES = ("README.md", "LICENSE", "docs")
INSTALL = """#!/bin/sh
# install.sh [FOLDER]: installs SEMQ {version} into a virtual environment, by default /opt/semq. It needs no network,
# but Python {python} with its module venv (Debian: python{python}-venv); PYTHON=/path/to/python{python} names it.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
folder=${{1:-/opt/semq}}
python=${{PYTHON:-python{python}}}
"$python" -c 'import ensurepip, sys; sys.exit(sys.version_info[:2] != {version_info})' 2>/dev/null || {{
    echo "install.sh: $python is not Python {python} with the module venv, for which these packages are." >&2
    exit 1
}}
"$python" -m venv "$folder"
export PIP_DISABLE_PIP_VERSION_CHECK=1
"$folder/bin/python" -m pip install --quiet --no-index --find-links "$here/wheels" '{package}'
echo "Installed: $folder/bin/semq. Next: $folder/bin/semq demo. Units of systemd: $folder/share/semq/systemd"
"""


def main() -> int:
    """Make the archive; return the exit status."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="./run bundle",
        description="Make one archive whose install.sh installs SEMQ without a network. It is for machines "
        f"with Python {PYTHON}, the Python of this environment.",
    )
    parser.add_argument(
        "--with-spark", action="store_true", help="with the reconciliation: Spark and Java, 650 MB in all"
    )
    parser.add_argument("--output", type=Path, default=OUTPUT, metavar="DIR", help=f"folder; default: {OUTPUT}")
    parser.add_argument(
        "--try", action="store_true", dest="tries", help="then install it without a network, and try it"
    )
    options = parser.parse_args()
    package = "semq[spark]" if options.with_spark else "semq"
    try:
        with TemporaryDirectory(prefix="semq-bundle-") as temporary:
            folder = Path(temporary) / NAME
            collect(folder / "wheels", package)
            archive = pack(folder, package, options.output)
            if options.tries:
                try_out(archive, Path(temporary) / "trial", with_spark=options.with_spark)
    except subprocess.CalledProcessError as error:
        print(f"bundle: {' '.join(map(str, error.cmd))}: {error.stderr or error.stdout}", file=sys.stderr)
        return 1
    print(archive)
    return 0


def collect(folder: Path, package: str) -> None:
    """Put the wheels of a package and of all that it needs into a folder, in the versions of the lock.

    Raises CalledProcessError.
    """
    say(f"collecting the packages of {package} {__version__} for Python {PYTHON}")
    wheel, sdist = build(folder)
    sdist.unlink()
    versions = folder / "versions.txt"
    versions.write_text(locked_versions("spark"))
    wanted = package.replace("semq", str(wheel), 1)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run(
        [*pip, "wheel", "-w", str(folder), "-c", str(versions), wanted], check=True, capture_output=True, text=True
    )
    versions.unlink()


def pack(folder: Path, package: str, output: Path) -> Path:
    """Add script and documents to the folder with the wheels; return the archive of it."""
    script = folder / "install.sh"
    text = INSTALL.format(
        version=__version__, python=PYTHON, version_info=sys.version_info[:2], package=f"{package}=={__version__}"
    )
    script.write_text(text)
    script.chmod(0o755)
    output.mkdir(parents=True, exist_ok=True)
    archive = output / f"{folder.name}{'-spark' if 'spark' in package else ''}.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:  # wheels are compressed already
        tar.add(folder, folder.name)
        for name in FILES:
            tar.add(ROOT / name, f"{folder.name}/{name}")
    return archive


def try_out(archive: Path, folder: Path, *, with_spark: bool) -> None:
    """Unpack and install an archive without a network if this is root, and take the tour.

    With Spark, the demo ends with a reconciliation. Raises CalledProcessError.
    """
    say(f"installing {archive.name}{' without a network' if os.geteuid() == 0 else ''}, and trying it")
    (folder / "tour").mkdir(parents=True)
    alone = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"] if os.geteuid() == 0 else []
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment |= {"PYTHON": sys.executable}
    semq = f"{folder}/installed/bin/semq"

    def call(*command: str) -> str:
        done = subprocess.run([*alone, *command], env=environment, check=True, capture_output=True, text=True)
        say(done.stdout.strip())
        return done.stdout

    call("tar", "-xzf", str(archive.resolve()), "-C", str(folder))
    call(f"{folder}/{NAME}/install.sh", f"{folder}/installed")
    call(sys.executable, tour.__file__, semq, f"{folder}/tour")
    if with_spark:
        result = call(semq, "demo", "--count", "2", "--json")
        if json.loads(result)["reconcile"]["outcome"] != "met":  # skipped, for want of a package
            raise subprocess.CalledProcessError(1, [semq, "demo"], result)


def say(text: str) -> None:
    """Print progress on standard error."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
