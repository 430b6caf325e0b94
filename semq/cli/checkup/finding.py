"""The finding of one check: subject, verdict, detail, advice. Made by the modules of checks, printed by `doctor`."""

from dataclasses import dataclass

from semq.errors import SemqError
from semq.service.monitoring.health import FAILING as FAILING
from semq.service.monitoring.health import OK as OK
from semq.service.monitoring.health import WARNING as WARNING


@dataclass(frozen=True, slots=True)
class Finding:
    """One subject with its verdict."""

    check: str  #: subject, for instance "disk"
    verdict: str  #: ok; warning (works, but needs attention); failing (does not work, or may lose data)
    detail: str = ""
    advice: str = ""  #: what the operator should do


def failing(check: str, error: SemqError) -> Finding:
    """Return an error as a finding."""
    return Finding(check, FAILING, " ".join(str(error).split()), error.remedy)
