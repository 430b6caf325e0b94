"""Foreign text, made safe for display.

Foreign text comes from partners and applications. In this module, *invisible* characters are control characters, line
breaks, characters without a width, characters that reverse the reading order, and lone surrogates.
"""

import json
import re

SHOWN_MAX = 4000  # characters of one shown text
REPLACEMENT = "\ufffd"

# DEL and C1 controls; the soft hyphen; letters without a glyph; zero-width and bidirectional controls; separators of
# lines and paragraphs; lone surrogates; byte-order marks, annotations, noncharacters, musical controls and tags.
_INVISIBLE = (
    "\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb"
    "\ufffe\uffff\ud800-\udfff\U0001d173-\U0001d17a\U000e0000-\U000e007f"
)
_IN_LINE = re.compile(f"[\x00-\x1f{_INVISIBLE}]")
_IN_PAGE = re.compile(f"[\x00-\x08\x0b\x0c\x0e-\x1f{_INVISIBLE}]")  # tabs and line ends are markup of the page
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def shown(text: str, length_max: int = SHOWN_MAX) -> str:
    """Return the text as one line, with escapes (``\\x1b``) for invisible characters.

    A text longer than ``length_max`` is cut; the result then ends with the number of missing characters.
    """
    cut = len(text) - length_max
    if cut > 0:
        text = text[:length_max]
    if not (text.isascii() and text.isprintable()):  # a fast check for most texts
        text = _IN_LINE.sub(_escape, text)
    return f"{text}… ({cut} more characters)" if cut > 0 else text


def shortened(text: str, length_max: int) -> str:
    """Return the text, or its beginning with the sign ``…``; at most ``length_max`` characters."""
    return text if len(text) <= length_max else f"{text[: length_max - 1]}…"


def shown_lines(text: str, length_max: int = SHOWN_MAX) -> list[str]:
    """Return the lines of a text, each in the form of ``shown``."""
    return [shown(line, length_max) for line in text.split("\n")]


def in_page(text: str) -> str:
    """Return a text for HTML or a spreadsheet: U+FFFD replaces invisible characters except tabs and line ends."""
    return _IN_PAGE.sub(REPLACEMENT, text)


def json_text(value: object) -> str:
    """Return data as JSON on one line, with escapes for invisible characters. Numbers must be finite.

    Objects without a form in JSON become texts.
    """
    return in_json(json.dumps(value, ensure_ascii=False, default=str))


def in_json(text: str) -> str:
    """Return a JSON text of one line with escapes for invisible characters."""
    return _IN_LINE.sub(lambda match: json.dumps(match[0])[1:-1], text)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    code = ord(character)
    if character in _NAMED:
        return _NAMED[character]
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
