"""Arguments of acts in the audit log as texts for people: for command ``audit list`` and the page of the audit log."""

import json
import re
from collections.abc import Mapping

LEFT_OUT = re.compile(r"\((\d+ characters|\d+ bytes|not recorded)\)$")  # secrets and payloads


def argument_texts(arguments: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return names and texts of arguments, documents first; without those that the log does not have."""
    texts = [(name, _text(value)) for name, value in arguments.items() if value not in (None, "")]
    kept = [(name, text) for name, text in texts if not LEFT_OUT.match(text)]
    return sorted(kept, key=lambda argument: argument[0] != "documents")


def _text(value: object) -> str:
    """Return a text, texts with semicolons between them, or JSON."""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return "; ".join(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
