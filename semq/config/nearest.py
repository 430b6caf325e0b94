"""Suggestions for misspelt names."""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known name most similar to ``word``, or None."""
    by_fold = {name.casefold(): name for name in known}
    for found in get_close_matches(word.casefold(), by_fold, n=1, cutoff=0.5):
        return by_fold[found]
    return None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of an error sentence: the nearest name, or nothing."""
    found = nearest(word, known)
    return f"; did you mean {found}?" if found else ""
