"""Texts of single errors that contain values: f-strings of the sources, which the translations have as patterns."""

import re
from collections.abc import Callable
from functools import cache

# Fields with several words; all others have one
OF_WORDS = frozenset(
    "choices commits error failures fault file given holds loss lost name part partners peer session text times users"
    " why words".split()
)
WORD, WORDS = r"\S+?", ".+?"
PERSON = rf"{WORD}|{WORDS} via {WORD}"  # a user of the node, or who acts through one: ``maria via guest``
LENGTH_MAX, NESTED_MAX = 1000, 3  # characters of a text; texts within texts
WITH_VALUES = (
    "Send to %(node)s, or to one user: %(user)s.", "Restore %(key)s and %(certificate)s from one backup.",
    "The environment variable %(variable)s is not set, or is empty.",
    "The session key was wrapped for key %(key)s, which this node does not have.",
    "A password has %(least)s to %(most)s characters.", "queue '%(queue)s' belongs to node %(node)s",
    "node %(node)s has another session; a dead one is ended after two heartbeat intervals",
    "The document has ended here: %(outcome)s (%(words)s) at %(at)s.",
    "%(operation)s needs the argument %(argument)s; it is empty.",
    "The argument %(argument)s of %(operation)s is empty: leave it out, or give it a value.",
    "The argument %(argument)s of %(operation)s is wrong: %(given)s is none of %(choices)s.",
    "The argument %(argument)s of %(operation)s does not have the required form.",
    "%(operation)s has no argument %(argument)s.", "%(operation)s needs the argument %(argument)s.",
    "The argument %(argument)s of %(operation)s contains a NUL character.",
    "The arguments of %(operation)s are nested too deeply.",
    "%(file)s describes a %(kind)s node, not a %(other)s node.", "initdb did not end within %(seconds)s seconds.",
    "Postgres was not ready after %(seconds)s seconds.",
    "Shorten or correct the %(part)s; a long or unusual name fits into a header of your own, or into the body.",
    "%(name)s must be 0 or 1.", "%(name)s must be 1 (drop), 2 (store) or 3 (must be delivered).",
    "%(name)s must be an integer of 0 or more.", "%(name)s must be in milliseconds since 1970, up to the year 9999.",
    "%(name)s must be in milliseconds since 1970; this number is too small, it looks like seconds.",
    "%(name)s must be printable text of at most %(most)s characters.",
    "%(name)s must be the number of an attempt, at most %(most)s.", "%(name)s is not a SHA-256 digest.",
    "There is no attribute %(name)s.", "%(name)s is set by nodes; an application must omit it.",
    "%(name)s is beside the field %(field)s, which contains it.", "The ID token has no usable claim %(claim)s.",
    "The head of a request has at most %(most)s bytes.",
    "%(name)s must be a number of milliseconds from 0 to %(most)s.", "%(peer)s could not answer.",
    "%(peer)s refused the login.", "%(peer)s did not answer.", "%(peer)s does not accept this request.",
    "%(file)s has no [server]: it describes one node (`semq node run`).",
    "More than %(most)s users in all institutions together.",
    "More than %(most)s groups, or more than %(members)s members in all of them.",
    'Correct the name, or add the institution: a table [nodes."%(node)s"].',
    "%(name)s is not a valid name of a node: letters, digits, '-' and '_' only, 64 at most.",
    "Agreement %(number)s needs from, to and types that are not empty.",
    "%(name)s is not a valid name of a user: letters, digits, '-' and '_' only, 64 at most, not %(reserved)s.",
    "Node %(node)s has a user twice, or more than %(most)s.",
    "%(name)s is not a valid name of a group: letters, digits, '-' and '_' only, 64 at most.",
    "Group %(name)s needs 1 to %(most)s members.", "Group %(name)s names a member twice.",
    "%(part)s names %(node)s, which is not an institution of this hub.",
    "node %(node)s has a session at another instance of the hub", "The numbers of a store are 1 to %(most)s.",
    "No turn came within %(seconds)s s.", "node %(node)s reads it already",
    "The node did not answer within %(seconds)s s.",
)  # fmt: skip
# Texts that stand in others, remarks about acts of operators, and faults of arguments
PARTS = (
    "hub and receivers", "the other end",
    "it can be asked only over a link that this node dials; its operator can trace the document there",
    "the document to each member has a name of its own (`semq msg show` lists them)",
    "The hub", "Agreement %(number)s", "Group %(name)s",
    "refused at the hub by %(user)s: %(why)s (this store of the hub had not sent it yet)",
    "refused at the hub by %(user)s: %(why)s", "refused by %(user)s: %(why)s", "sent again by %(user)s: %(why)s",
    "held: %(why)s", "released: %(why)s", "resend: %(why)s", "requeued: %(why)s", "removed: %(why)s",
    "to be sent again: %(why)s", "continues as %(lk0)s", "%(why)s (by %(user)s)", "by %(user)s",
    "The argument %(argument)s of %(operation)s is wrong: %(fault)s.", "Expected %(type)s of length >= %(least)s",
    "Expected %(type)s of length <= %(most)s", "Expected %(type)s >= %(least)s", "Expected %(type)s <= %(most)s",
    "Expected %(type)s, got %(other)s",
)  # fmt: skip


@cache
def pattern_of(words: str) -> re.Pattern[str]:
    """Return the pattern of a text with fields such as %(name)s."""
    return re.compile(re.sub(r"%\\\((\w+)\\\)s", _group, re.escape(words)))


def _group(field: re.Match[str]) -> str:
    name = field[1]
    return f"(?P<{name}>{WORDS if name in OF_WORDS else PERSON if name == 'user' else WORD})"


def translation(_: Callable[[str], str], text: str, nested_max: int = NESTED_MAX) -> str:
    """Return the translation of a text, also of one with values; without one, the text.

    A text of others costs little time: patterns need up to the square of its length.
    """
    if (translated := _(text)) != text or " " not in text or len(text) > LENGTH_MAX or not nested_max:
        return translated
    for words in (*WITH_VALUES, *PARTS):
        if found := pattern_of(words).fullmatch(text):
            values = {name: translation(_, value, nested_max - 1) for name, value in found.groupdict().items()}
            if values.get("fault") is None or values["fault"] != found["fault"]:
                return _(words) % values
    return text
