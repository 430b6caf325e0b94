"""Suggestions for misspelt names."""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(word: str, names: Iterable[str]) -> str | None:
    """Return the name most similar to ``word``, ignoring case; None if no name is similar."""
    by_casefolded = {name.casefold(): name for name in names}
    matches = get_close_matches(word.casefold(), by_casefolded, n=1, cutoff=0.5)
    return by_casefolded[matches[0]] if matches else None


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """Return the end of a sentence that suggests the nearest name; empty if no name is similar."""
    name = nearest(word, names)
    return f"; did you mean {name}?" if name else ""
