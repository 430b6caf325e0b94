"""The steps of the Containerfile in plain roots of Debian, for machines without a builder of images. Needs root.

Each stage is a root: a copy of a root of the release that it is from. The user of the image then takes the tour.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from release import tour
from release.debian import inside, make_root, share_network_settings
from release.installs import FAULT_CHARS_MAX, InstallationResult
from release.packages import ROOT, export

CONTAINERFILE = ROOT / "deploy" / "container" / "Containerfile"
STAGE = re.compile(r"^debian:(\w+)-slim(?: AS (\w+))?$")
WITHOUT_STEP = {"VOLUME", "STOPSIGNAL", "ENTRYPOINT", "CMD"}  # what they say is for the engine that runs the image


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """Yield the instructions of a Containerfile with their arguments."""
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for line in re.sub(r"\\\n", " ", lines).splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            yield word, " ".join(rest.split())


def try_image(roots: Path) -> InstallationResult:
    """Run all steps, then the tour as the user of the image."""
    version = step = ""
    with TemporaryDirectory(prefix="image-", dir=roots) as temporary:
        stages: dict[str, Path] = {}
        root, user = Path(), "0"
        try:
            for word, rest in instructions(CONTAINERFILE.read_text("utf-8")):
                step = f"{word} {rest}"
                match word:
                    case "FROM":
                        _, release, name = STAGE.split(rest)[:3]
                        make_root(roots / release, release, ())
                        root, user = Path(temporary) / (name or "image"), "0"
                        _copy(roots / release, root)
                        version = (root / "etc/debian_version").read_text().strip()
                        stages[name or ""] = root
                    case "RUN":
                        share_network_settings(root)  # again: a step may have installed other certificates
                        _call(*inside(root), "sh", "-c", rest)
                    case "COPY":
                        source, target = rest.split()[-2:]
                        place = root / target.lstrip("/")
                        if stage := re.match(r"--from=(\w+) ", rest):
                            _copy(stages[stage[1]] / source.lstrip("/"), place)
                        else:
                            export(ROOT, place)
                    case "USER":
                        user = rest
                    case _ if word not in WITHOUT_STEP:
                        raise ValueError(f"an instruction that this program does not know: {step}")
            step = "tour"
            steps = _take_tour(root, user)
        except subprocess.CalledProcessError as error:
            fault = f"{step}: {error.stdout}{error.stderr}"[-FAULT_CHARS_MAX:]
            return InstallationResult(f"Debian {version}", "3", "Containerfile", ok=False, fault=fault)
    return InstallationResult(f"Debian {version}", "3", "Containerfile", ok=True, steps=steps)


def _take_tour(root: Path, user: str) -> int:
    """Take the tour in /var/lib/semq as the user of the image; return the number of steps."""
    home = "/var/lib/semq"
    shutil.copyfile(tour.__file__, root / "tour.py")
    (root / "tour.py").chmod(0o644)
    command = ["setpriv", f"--reuid={user}", "--regid=semq", "--clear-groups", "env", f"HOME={home}", "sh", "-c"]
    script = f"mkdir {home}/tour && exec python3 -B /tour.py /opt/semq/.venv/bin/semq {home}/tour"
    return len(json.loads(_call(*inside(root), *command, script))["steps"])


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    _call("cp", "-a", str(source), str(target))


def _call(*command: str) -> str:
    own = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"}
    others = {name: value for name, value in os.environ.items() if not name.startswith(("SEMQ_", "PYTHON"))}
    return subprocess.run(command, env=others | own, check=True, capture_output=True, text=True).stdout
