"""Health of a node for monitoring: verdicts (``node.health``) and figures for Prometheus (``node.metrics``).

Both are derived from ``node.status``, so that they agree with what operators see. The command line prints them; for
Prometheus, a timer that writes ``semq node metrics`` to the folder of a textfile collector is enough.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from semq.moments import utc_text

Status = Mapping[str, Any]
Sample = tuple[Mapping[str, str], float]
OK, WARNING, FAILING = VERDICTS = ("ok", "warning", "failing")
SHOWN_MAX = 5  # kinds of violations in words
CERTIFICATE = {"ok": OK, "renew": OK, "ending": WARNING, "expired": FAILING}


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check."""

    name: str
    verdict: str  #: ok, warning (needs attention soon), failing (something does not work now)
    detail: str = ""


def checks(status: Status, warn_days: float) -> list[Check]:
    """Derive the checks from the status of a node; ``warn_days``: days before the end of a certificate."""
    found = [Check("store", OK if status["store_open"] else FAILING, "" if status["store_open"] else "being opened")]
    hub = status.get("hub")
    if hub is not None:
        is_up = hub["link"] == "up"
        found.append(Check("link", OK if is_up else FAILING, "" if is_up else str(hub["last_error"])))
    own = status.get("certificate")
    if own is not None:
        detail = f"{own['days_left']} days left, renewal at {own['renew_at']}"
        found.append(Check("certificate", CERTIFICATE[own["state"]], detail))
    issued = status.get("certificates")
    if issued is not None:
        ending = [f"{node}: {days} days" for node, days in sorted(issued.items()) if days <= warn_days]
        found.append(Check("certificates", WARNING if ending else OK, ", ".join(ending)))
    shortage = status.get("shortage")
    found.append(Check("resources", WARNING if shortage else OK, f"publishers wait: {shortage}" if shortage else ""))
    full = [node for node, told in sorted(status.get("partners", {}).items()) if told.get("quota_reached")]
    if full:
        found.append(Check("quotas", WARNING, f"no further documents are taken for {', '.join(full)}"))
    submissions = status.get("sql_submissions")
    if submissions is not None:
        detail = ", ".join(_about_submissions(status, submissions))
        found.append(Check("submissions", WARNING if detail else OK, detail))
    for name, one in status.get("companions", {}).items():
        detail = "" if one["running"] else f"the process ended with status {one['exit']} and is started again"
        found.append(Check(name, OK if one["running"] else FAILING, detail))
    violations = status.get("violations")
    if violations:
        found.append(Check("violations", WARNING, _violations(violations)))
    extract = status.get("extract")
    if extract:
        failed = extract["exit_status"] != 0
        found.append(Check("extract", WARNING if failed else OK, f"{extract['at']}: {extract['said']}"))
    return found


def _about_submissions(status: Status, counts: Mapping[str, int]) -> Iterable[str]:
    if counts["refused"]:
        yield f"documents handed over by SQL were refused ({counts['refused']}): `semq failed list`"
    for target, why in sorted(status.get("sql_waiting", {}).items()):
        yield f"documents handed over by SQL for {target} wait: {why}"


def _violations(seen: Sequence[Mapping[str, Any]]) -> str:
    """Describe the violations of the last day: peer, kind, count, time."""
    told = [
        f"{one['who']}: {one['what']} {_times(one['count'])}, last {utc_text(one['last'])} ({one['text']})"
        for one in seen[:SHOWN_MAX]
    ]
    more = [f"{len(seen) - SHOWN_MAX} more in node.status"] if len(seen) > SHOWN_MAX else []
    return "; ".join(told + more)


def _times(count: int) -> str:
    return "1 time" if count == 1 else f"{count} times"


def health(node: str, found: Sequence[Check]) -> dict[str, Any]:
    """Return the answer of ``node.health``: the worst verdict, and every check."""
    worst = max((check.verdict for check in found), key=VERDICTS.index)
    told = [{"check": check.name, "verdict": check.verdict, "detail": check.detail} for check in found]
    return {"node": node, "verdict": worst, "checks": told}


def metrics(status: Status, warn_days: float) -> str:
    """Return all figures in the Prometheus text format 0.0.4."""
    lines: list[str] = []
    for name, kind, help_, samples in METRICS:
        found = list(samples(status, warn_days))
        if found:
            lines += [f"# HELP {name} {help_}", f"# TYPE {name} {kind}"]
            lines += [f"{name}{_labels(labels)} {value:g}" for labels, value in found]
    return "\n".join(lines) + "\n"


def _each(part: str, label: str) -> Callable[[Status, float], Iterable[Sample]]:
    """Return a function that lists the numbers of one part of the status."""
    return lambda status, _: [({label: name}, value) for name, value in status.get(part, {}).items()]


def _link(status: Status, _: float) -> list[Sample]:
    return [({}, float(status["hub"]["link"] == "up"))] if "hub" in status else []


def _partners(status: Status, _: float) -> list[Sample]:
    return [({"node": node}, float(told["online"])) for node, told in status.get("partners", {}).items()]


def _days(status: Status, _: float) -> list[Sample]:
    own = status.get("certificate")
    days = {status["node"]: own["days_left"]} if own is not None else {}
    return [({"node": node}, left) for node, left in (days | dict(status.get("certificates", {}))).items()]


def _verdicts(status: Status, warn_days: float) -> list[Sample]:
    return [({"check": one.name}, float(VERDICTS.index(one.verdict))) for one in checks(status, warn_days)]


# Name | type | help | samples
METRICS: tuple[tuple[str, str, str, Callable[[Status, float], Iterable[Sample]]], ...] = (
    ("semq_check", "gauge", "0 ok, 1 warning, 2 failing; by check.", _verdicts),
    ("semq_certificate_days_left", "gauge", "Days until a certificate ends; at a hub, of institutions too.", _days),
    ("semq_link_up", "gauge", "Whether the link to the platform is up.", _link),
    ("semq_partner_online", "gauge", "Whether the platform says that a partner is there.", _partners),
    ("semq_events_total", "counter", "What the engine has counted since it began.", _each("counters", "event")),
    ("semq_amqp", "gauge", "Figures of the AMQP endpoint.", _each("amqp", "figure")),
    ("semq_store", "gauge", "Figures of the writer of the store since it was made.", _each("store", "figure")),
    (
        "semq_sql_submissions",
        "gauge",
        "Handed over by SQL and not accepted.",
        _each("sql_submissions", "state"),
    ),
    ("semq_store_waiting", "gauge", "Work that waits for the writer.", lambda s, _: [({}, s["waiting_work"])]),
)


def _labels(labels: Mapping[str, str]) -> str:
    shown = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{shown}}}" if shown else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
