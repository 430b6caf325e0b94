"""Foreign text, made safe for display: on a terminal, in a log line, in JSON, in HTML and in CSV.

Reasons, keys, headers, errors, tracebacks and names come from partners and applications. They may contain control
characters that move the cursor or change colours, line breaks that forge a line, characters without a width, characters
that reverse the reading order, and lone surrogates that no stream can write. In this module, *invisible* means all of
these. Every module that displays foreign text calls this module: ``semq.cli.output``, ``semq.service.log``,
``semq.web``, ``semq.console``, ``spark_reconcile`` and others. It uses no clock and no IO.
"""

import json
import re
from typing import Any

SHOWN_MAX = 4000  # characters of one shown text
REPLACEMENT = "\ufffd"

# DEL and C1 controls; the soft hyphen; letters without a glyph; zero-width and bidirectional controls; separators of
# lines and paragraphs; lone surrogates; byte-order marks, annotations, noncharacters, musical controls and tags. Both
# patterns below add C0 controls.
_UNSEEN = (
    "\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb"
    "\ufffe\uffff\ud800-\udfff\U0001d173-\U0001d17a\U000e0000-\U000e007f"
)
_IN_LINE = re.compile(f"[\x00-\x1f{_UNSEEN}]")
_IN_PAGE = re.compile(f"[\x00-\x08\x0b\x0c\x0e-\x1f{_UNSEEN}]")  # tabs and line ends are markup of the page
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def shown(text: str, length_max: int = SHOWN_MAX) -> str:
    """Return the text as one line, with escapes (``\\x1b``) for invisible characters.

    A text longer than ``length_max`` is cut; the result then ends with the number of missing characters.
    """
    cut = len(text) - length_max
    if cut > 0:
        text = text[:length_max]
    if not (text.isascii() and text.isprintable()):  # a fast check that suffices for nearly all texts
        text = _IN_LINE.sub(_escape, text)
    return f"{text}… ({cut} more characters)" if cut > 0 else text


def shortened(text: str, length_max: int) -> str:
    """Return the text, or its beginning with the sign ``…``; at most ``length_max`` characters in all."""
    return text if len(text) <= length_max else f"{text[: length_max - 1]}…"


def shown_lines(text: str, length_max: int = SHOWN_MAX) -> list[str]:
    """Return the lines of a text (a traceback, a file), each in the form of ``shown``."""
    return [shown(line, length_max) for line in text.split("\n")]


def in_page(text: str) -> str:
    """Return a text for an HTML page or for a cell of a spreadsheet, with U+FFFD for each invisible character. Tabs and
    line ends stay.
    """
    return _IN_PAGE.sub(REPLACEMENT, text)


def json_text(value: Any) -> str:
    """Return data as JSON on one line that is safe on a terminal: invisible characters are escaped. Objects that
    JSON does not have become texts; numbers must be finite.
    """
    return in_json(json.dumps(value, ensure_ascii=False, default=str))


def in_json(text: str) -> str:
    """Return a JSON text of one line with escapes for invisible characters: only its strings can contain them."""
    return _IN_LINE.sub(lambda match: json.dumps(match[0])[1:-1], text)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    code = ord(character)
    if character in _NAMED:
        return _NAMED[character]
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
