"""The result of one check: subject, verdict, advice."""

from dataclasses import dataclass

from semq.errors import SemqError
from semq.service.monitoring.health import FAILING as FAILING
from semq.service.monitoring.health import OK as OK
from semq.service.monitoring.health import WARNING as WARNING


@dataclass(frozen=True, slots=True)
class Finding:
    """A row of the result."""

    check: str
    verdict: str  #: ok, warning (it works, but needs attention), failing (it does not work, or may lose data)
    detail: str = ""
    advice: str = ""


def failing(check: str, error: SemqError) -> Finding:
    """Return an error as a finding."""
    return Finding(check, FAILING, " ".join(str(error).split()), error.remedy)
