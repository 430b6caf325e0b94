"""Functions compiled from the rows of tables. A loop over the rows would take 1.5 times as long for each document."""

from collections.abc import Mapping, Sequence
from typing import Any


def compiled(subject: str, argument: str, body: Sequence[str], names: Mapping[str, object]) -> Any:
    """Return a function of ``argument``. ``subject`` is shown in tracebacks; ``names`` are those that ``body`` uses."""
    made = dict(names)
    exec(compile("\n    ".join([f"def function({argument}):", *body]), f"<{subject}>", "exec"), made)
    return made["function"]
