"""The rows of the files ``*.faults``."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.covered import COVERED

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent
TITLE, OLD, NEW = "# ", "- ", "+ "
# Word among the killers | arguments of pytest
FOLDERS = {"flows": ("tests/flows", "--ignore=tests/flows/real_nodes")}
SIMULATE = "simulate"  # first word of a killer that is a run of the simulator


class FaultUnreadable(Exception):  # noqa: N818  (a state of the file)
    """A row of a file ``*.faults`` has another form than ``tests.planted`` describes."""


@dataclass(slots=True)
class PlantedFault:
    """A defect: ``old`` in the file becomes ``new``."""

    room: str
    name: str
    file: str  #: relative to the root
    killers: tuple[str, ...]  #: tests that fail with the defect, or ``simulate …``
    _old: list[str] = field(default_factory=list)
    _new: list[str] = field(default_factory=list)

    @property
    def old(self) -> str:
        return "\n".join(self._old)

    @property
    def new(self) -> str:
        return "\n".join(self._new)

    def add(self, line: str) -> None:
        """Add a line of the replacement."""
        if line.startswith(OLD) and not self._new:
            self._old.append(line.removeprefix(OLD))
        elif line.startswith(NEW) and self._old:
            self._new.append(line.removeprefix(NEW))
        else:
            raise FaultUnreadable(f"{self.room}.faults, {self.name}: {line}")

    def applied(self, text: str) -> str:
        """Return the text of the file with the defect. Raises FaultUnreadable if it does not fit exactly once."""
        count = text.count(self.old) if self._old else 0
        if count != 1:
            raise FaultUnreadable(
                f"{self.room}.faults, {self.name}: the old text is {count} times in {self.file};"
                " change the row with the file"
            )
        return text.replace(self.old, self.new)


def read_faults(folder: Path = FOLDER) -> list[PlantedFault]:
    """Return all planted faults. Raises FaultUnreadable."""
    return [fault for path in sorted(folder.glob("*.faults")) for fault in _read(path)]


def _read(path: Path) -> Iterator[PlantedFault]:
    fault: PlantedFault | None = None
    for line in path.read_text("utf-8").splitlines():
        if line.startswith(TITLE):
            if fault is not None:
                yield fault
            fault = _titled(path.stem, line.removeprefix(TITLE))
        elif line and fault is not None:
            fault.add(line)
    if fault is not None:
        yield fault


def _titled(room: str, title: str) -> PlantedFault:
    name, file, *killers = (cell.strip() for cell in title.split("|"))
    if killers and killers[0].startswith(SIMULATE):
        return PlantedFault(room, name, file, (killers[0],))
    words = killers[0].split() if killers else [_opposite(file)]
    return PlantedFault(room, name, file, tuple(each for word in words for each in FOLDERS.get(word, (word,))))


def _opposite(file: str) -> str:
    """Return the test of a module."""
    module = file.removesuffix(".py").replace("/", ".")
    covering = COVERED.get(module)
    path = Path(file.removeprefix("semq/"))
    return f"tests/{covering}" if covering else str("tests" / path.with_name(f"test_{path.name}"))
