"""The root of SEMQ's error tree, and the errors that more than one floor raises.

    SemqError
    ├── BadInput            the caller's fault: correct the input and repeat
    ├── ProtocolViolation   a peer's fault: the frame is refused
    ├── Unavailable         no fault: repeat later
    └── Misconfigured       the operator's fault: correct the configuration, then start again
        └── UnusablePath    a file or folder cannot be used

A ``code`` is never reused. The first line of a docstring is the sentence shown to operators; ``facts`` are details.

| codes     | errors about                                                                  |
|-----------|-------------------------------------------------------------------------------|
| 1000–1999 | the protocol and its documents; client library, folders, web, webhooks        |
| 2000–2999 | configuration, start-up, operations, command line, import                     |
| 3000–3999 | the store                                                                     |
| 4000–4999 | AMQP, transport, datagrams (4nnn is the reply code nnn; 49nn: no reply code)  |
| 5000–5999 | identity and secrecy                                                          |
| 6000–6999 | reconciliation                                                                |
"""

from collections.abc import Iterable, Mapping
from errno import EDQUOT, ENOSPC
from typing import Any, ClassVar, Self


class SemqError(Exception):
    """Something in SEMQ failed."""

    code: ClassVar[str] = "SEMQ-1000"
    remedy: ClassVar[str] = "Look at the log line with this code."

    def __init__(self, text: str = "", **facts: Any) -> None:
        self.text = text or (self.__doc__ or type(self).__name__).strip().splitlines()[0]
        self.facts = facts
        super().__init__(self.text)

    def with_remedy(self, remedy: str) -> Self:
        """Set the remedy of this error; return the error."""
        self.remedy = remedy  # type: ignore[misc] # overrides the class attribute on this instance
        return self

    def __str__(self) -> str:
        facts = " ".join(f"{name}={_quoted(value)}" for name, value in self.facts.items())
        return f"{self.code} {self.text}" + (f" ({facts})" if facts else "")

    def advice(self) -> str:
        """Return the complete sentence for a person: ``str`` of the error, and the remedy."""
        return f"{self} — {self.remedy}"


def fact_text(value: object) -> str:
    """Return a fact as people read it: several values with commas, and ``none`` for None."""
    if value is None:
        return "none"
    if isinstance(value, Mapping):
        value = [f"{name}={item}" for name, item in value.items()]
    # Not every tuple: an address or a locator has a text of its own.
    if isinstance(value, Iterable) and type(value) in (list, tuple, set, frozenset):
        return ", ".join(map(str, value))
    return str(value)


def _quoted(value: object) -> str:
    text = fact_text(value)
    return text if value is None or isinstance(value, int | float) else repr(text)


class BadInput(SemqError):
    """The input cannot be accepted; nothing was changed."""

    code = "SEMQ-1001"
    remedy = "Correct the input and repeat."


class ProtocolViolation(SemqError):
    """A peer sent something that the protocol does not allow; it was refused."""

    code = "SEMQ-1002"
    remedy = "Compare the versions of the two nodes; the ledger of this node names the peer and the record."


class Unavailable(SemqError):
    """Something that is needed is temporarily unavailable; nothing is lost."""

    code = "SEMQ-1003"
    remedy = "Repeat later; the same client token makes a repeat safe."


def semq_error(error: Exception) -> SemqError:
    """Return an error of SEMQ unchanged, and Unavailable for any other, with the beginning of its text."""
    return error if isinstance(error, SemqError) else Unavailable(fault=repr(error)[:200])


class Misconfigured(SemqError):
    """The configuration does not describe a node that can run."""

    code = "SEMQ-2000"
    remedy = "Correct the configuration; `semq config check` reports all faults together."


class UnusablePath(Misconfigured):
    """A file or folder cannot be used."""

    code = "SEMQ-2012"
    remedy = "Correct the path, or its permissions; `semq doctor --config FILE` checks every path of a configuration."


def unusable_path_of(error: OSError) -> UnusablePath | None:
    """Return UnusablePath if ``error`` names a path, otherwise None."""
    if error.filename is None:
        return None
    fault = error.strerror or type(error).__name__
    unusable = UnusablePath(f"{error.filename}: {fault}.", path=str(error.filename))
    if error.errno in (ENOSPC, EDQUOT):
        unusable.with_remedy("Free space on its file system, or raise the quota of its user; then start again.")
    return unusable
