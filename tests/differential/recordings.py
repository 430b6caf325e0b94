"""The recorded answers of RabbitMQ: one file for each version, so that tests need no RabbitMQ."""

import json
from pathlib import Path
from typing import Any

from tests.broker.raw import RawClient

FOLDER = Path(__file__).with_name("recorded")


def recordings() -> dict[str, dict[str, Any]]:
    """Return the answers to scripts and pipelines, by version."""
    return {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(FOLDER.glob("*.json"))}


def record(version: str, scripts: dict[str, list[str]], pipelines: dict[str, str]) -> None:
    """Write the answers of one version."""
    FOLDER.mkdir(exist_ok=True)
    text = json.dumps({"scripts": scripts, "pipelines": pipelines}, indent=1, ensure_ascii=False)
    (FOLDER / f"{version}.json").write_text(text + "\n", "utf-8")


def version_of(port: int) -> str:
    """Return the version that a running RabbitMQ announces."""
    with RawClient(port).log_in(0) as client:
        return str(client.machine.peer_properties["version"])
