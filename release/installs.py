"""Installations of the packages in empty environments, each followed by the tour: here, and in roots of Debian.

An environment has its packages from the registry that the machine's pip and uv use. It has no access to this checkout.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from release import tour
from release.debian import inside, make_root, share_network_settings

PYTHONS = ("python3.11", "python3.12", "python3.13", "python3.14")
RELEASES = ("bookworm", "trixie", "sid")  # of Debian: 12, 13, and the newest Python
NEEDED = ("python3", "python3-venv", "pipx", "ca-certificates")  # packages of Debian in a root
FOLDER = Path("/srv/semq")  # in a root
CACHES = Path.home() / ".cache"  # of installers
FAULT_CHARS_MAX = 5000  # all that a command of the tour has printed, with the steps before it


@dataclass(frozen=True, slots=True)
class InstallationResult:
    """The result of one installation."""

    system: str
    python: str
    by: str  #: the installer, and what it was given
    ok: bool
    steps: int = 0  #: of the tour that went well
    fault: str = ""


@dataclass(frozen=True, slots=True)
class TrialPlace:
    """Where an installation is tried: this machine, or a root."""

    folder: Path  #: as this machine sees it
    seen: Path  #: the same as commands in the place see it
    prefix: Sequence[str] = ()  #: beginning of commands

    def call(self, *command: str, **variables: str) -> str:
        """Run a command in the folder, and return its output. Raises CalledProcessError."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("SEMQ_", "PYTHON"))}
        # A home of its own: settings of the caller do not count, only downloads of earlier installations.
        own = {"HOME": str(self.seen)} | variables
        if self.prefix:
            own["PATH"] = "/usr/sbin:/usr/bin:/sbin:/bin"
        else:
            own |= {"PIP_CACHE_DIR": str(CACHES / "pip"), "UV_CACHE_DIR": str(CACHES / "uv")}
        return subprocess.run(
            [*self.prefix, *command], cwd=self.folder, env=environment | own, check=True, capture_output=True, text=True
        ).stdout


def here(archives: tuple[Path, Path], pythons: Sequence[str]) -> Iterator[InstallationResult]:
    """Install the wheel for each of these interpreters, the sdist once, and the wheel by each other installer."""
    wheel, sdist = archives
    system = platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    ways = [(python, "pip", wheel) for python in pythons] + [(pythons[0], "pip", sdist)]
    ways += [(pythons[0], name, wheel) for name in ("pipx", "uv")]
    for python, by, archive in ways:
        with TemporaryDirectory(prefix="semq-install-") as temporary:
            yield _try(TrialPlace(Path(temporary), Path(temporary)), system, python, by, archive)


def in_root(root: Path, release: str, wheel: Path) -> Iterator[InstallationResult]:
    """Install the wheel by pip and pipx in a root of a release of Debian."""
    try:
        make_root(root, release, NEEDED)
    except subprocess.CalledProcessError as error:
        yield InstallationResult(f"Debian {release}", "", "debootstrap", ok=False, fault=_last_line(error))
        return
    share_network_settings(root)
    version = (root / "etc/debian_version").read_text().strip()
    for by in ("pip", "pipx"):
        folder = root / FOLDER.relative_to("/")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        yield _try(TrialPlace(folder, FOLDER, inside(root)), f"Debian {version}", "/usr/bin/python3", by, wheel)


def usable_pythons() -> list[str]:
    """Return the interpreters of this machine that SEMQ supports, one of each version, this one first."""
    found = {(sys.version_info.major, sys.version_info.minor): sys.executable}
    for name in PYTHONS:
        if (path := shutil.which(name)) is not None:
            probe = [path, "-c", "import ensurepip, sys; print(*sys.version_info[:2])"]
            done = subprocess.run(probe, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                major, minor = map(int, done.stdout.split())
                found.setdefault((major, minor), path)
    return list(found.values())


def _try(place: TrialPlace, system: str, python: str, by: str, archive: Path) -> InstallationResult:
    """Install an archive by an installer, and take the tour."""
    name = f"{by} {'sdist' if archive.name.endswith('.gz') else 'wheel'}"
    version = ""
    try:
        version = place.call(python, "-c", "import platform; print(platform.python_version())").strip()
        semq = _install(place, python, by, archive)
        shutil.copyfile(tour.__file__, place.folder / "tour.py")
        (place.folder / "tour").mkdir()
        out = place.call(python, str(place.seen / "tour.py"), semq, str(place.seen / "tour"))
    except subprocess.CalledProcessError as error:
        return InstallationResult(system, version, name, ok=False, fault=_last_line(error))
    return InstallationResult(system, version, name, ok=True, steps=len(json.loads(out)["steps"]))


def _install(place: TrialPlace, python: str, by: str, archive: Path) -> str:
    """Install; return the path of the program ``semq``. Raises CalledProcessError."""
    copied, programs = place.seen / archive.name, place.seen / "bin"
    shutil.copyfile(archive, place.folder / archive.name)
    match by:
        case "pip":
            place.call(python, "-m", "venv", str(place.seen / "environment"))
            programs = place.seen / "environment" / "bin"
            place.call(str(programs / "pip"), "install", "-qq", str(copied))
        case "pipx":
            variables = {"PIPX_HOME": str(place.seen / "pipx"), "PIPX_BIN_DIR": str(programs)}
            pipx = "pipx" if place.prefix else _of_this_environment("pipx")
            place.call(pipx, "install", "--python", python, str(copied), **variables)
        case _:
            variables = {"UV_TOOL_DIR": str(place.seen / "uv"), "UV_TOOL_BIN_DIR": str(programs)}
            place.call(_of_this_environment("uv"), "tool", "install", "--python", python, str(copied), **variables)
    return str(programs / "semq")


def _last_line(error: subprocess.CalledProcessError) -> str:
    return str(error.stdout or error.stderr).strip().rpartition("\n")[2][-FAULT_CHARS_MAX:]


def _of_this_environment(program: str) -> str:
    return str(Path(sys.executable).with_name(program))
