"""Health of a node: checks with their verdicts (``node.health``), derived from ``node.status``."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from semq.datagrams.rate import LOSS_MAX, SAMPLE
from semq.datagrams.recent import WINDOW_MINUTES
from semq.datagrams.session import NO_LINK
from semq.moments import utc_text

Status = Mapping[str, Any]
OK, WARNING, FAILING = VERDICTS = ("ok", "warning", "failing")
TELEMETRY_FAILURES = 3  # failed requests to the collector, in a row, that cause a warning
SHOWN_MAX = 5  # entries of a list in a detail
DRAINED = "drained by an operator: no document is accepted before the next start of the node"
NOT_DIALLED = "the partner has not dialled"
WENT_BACK = "it lacks commits (the operator's guide, Backup and restore): "
REVOKED = "revoked by the hub: enrol the node again with a new token (`semq hub nodes token` at the hub)"
CERTIFICATE = {"ok": OK, "renew": OK, "ending": WARNING, "expired": FAILING, "revoked": FAILING}


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check."""

    name: str
    verdict: str  #: ok, warning (needs attention soon), failing (something does not work now)
    detail: str = ""


def checks(status: Status, warn_days: float) -> list[Check]:
    """Derive the checks from the status of a node.

    ``warn_days``: a certificate that a file of the configuration contains, or one of an institution at a hub, causes a
    warning if it ends within this time.
    """
    results = [_store(status), *_around_store(status), *_links(status)]
    drained = status.get("drained")
    if drained is not None:
        results.append(Check("intake", WARNING if drained else OK, DRAINED if drained else ""))
    own = status.get("certificate")
    if own is not None:
        is_revoked = own["state"] == "revoked"
        detail = REVOKED if is_revoked else f"{own['days_left']} days left, renewal at {own['renew_at']}"
        verdict = CERTIFICATE[own["state"]]
        if own.get("fault"):
            detail = f"{detail}; replaced files are not used: {own['fault']}"
            verdict = WARNING if verdict == OK else verdict
        results.append(Check("certificate", verdict, detail))
    files = status.get("credential_files")
    if files:
        results.append(_credential_files(files, warn_days))
    issued = status.get("certificates")
    if issued is not None:
        ending = [f"{node}: {days} days" for node, days in sorted(issued.items()) if days <= warn_days]
        results.append(Check("certificates", WARNING if ending else OK, ", ".join(ending)))
    shortage = status.get("shortage")
    results.append(Check("resources", WARNING if shortage else OK, f"publishers wait: {shortage}" if shortage else ""))
    full = [node for node, facts in sorted(status.get("partners", {}).items()) if facts.get("quota_reached")]
    if full:
        results.append(Check("quotas", WARNING, f"no further documents are taken for {', '.join(full)}"))
    submissions = status.get("sql_submissions")
    if submissions is not None:
        detail = ", ".join(_about_submissions(status, submissions))
        results.append(Check("submissions", WARNING if detail else OK, detail))
    for section, companion in status.get("companions", {}).items():
        results.append(_companion(section, companion))
    telemetry = status.get("telemetry")
    if telemetry:
        results.append(_telemetry(telemetry))
    violations = status.get("violations")
    if violations:
        results.append(Check("violations", WARNING, _violations(violations)))
    extract = status.get("extract")
    if extract:
        failed = extract["exit_status"] != 0
        results.append(Check("extract", WARNING if failed else OK, f"{extract['at']}: {extract['output']}"))
    return results


def _store(status: Status) -> Check:
    if not status["store_open"]:
        return Check("store", FAILING, "being opened")
    parts = [WENT_BACK + status.get("missing_commits", "")] if status.get("store", {}).get("went_back") else []
    if missing := status.get("missing"):
        parts += [f"documents that it lacks: {missing['count']} (`semq node missing`)"] if missing["count"] else []
        parts += [f"partners to be asked yet: {missing['unanswered']}"] if missing["unanswered"] else []
    return Check("store", WARNING if parts else OK, "; ".join(parts))


def _around_store(status: Status) -> Iterable[Check]:
    """Yield findings about the database that do not close the store; none if all is well."""
    if unmet := status.get("database"):
        yield Check("database", WARNING, _listed(unmet))
    if refused := status.get("refused_rows"):
        yield Check("rows", WARNING, _listed([_refused(rows) for rows in refused]))
    if jobs := status.get("failing_jobs"):
        yield Check("jobs", WARNING, _listed([f"{name}: {error}" for name, error in sorted(jobs.items())]))


def _links(status: Status) -> Iterable[Check]:
    hub = status.get("hub")
    if hub is not None:
        is_up = hub["link"] == "up"
        yield Check("link", OK if is_up else FAILING, "" if is_up else str(hub["last_error"] or "not dialled yet"))
    if direct := status.get("direct"):
        errors = {partner: link["last_error"] for partner, link in direct.items() if link["link"] != "up"}
        down = [f"{partner}: {error or NOT_DIALLED}" for partner, error in errors.items()]
        yield Check("direct", WARNING if down else OK, "; ".join(down))
    if datagrams := status.get("datagrams"):
        yield _datagrams(datagrams["peers"])


def _datagrams(peers: Mapping[str, Mapping[str, Any]]) -> Check:
    """Return the check of datagrams. It warns of recent loss, and of a closed path to a linked peer if documents had to
    use the AMQP connection since the path closed.
    """
    closed, lossy = [], []
    for peer, path in sorted(peers.items()):
        if path["state"] != "open" and path["why"] != NO_LINK and path["not_open_now"]:
            closed.append(f"{peer}: {path['why']}")
        losses = _loss("to it", **path["recent_there"]), _loss("from it", **path["recent_here"])
        lossy += [f"{peer}: {loss}" for loss in losses if loss]
    parts = [f"documents with @Reliable=0 are sent over the AMQP connection; {_listed(closed)}"] if closed else []
    parts += [f"{_listed(lossy)}: send fewer, or with @Reliable=1"] if lossy else []
    return Check("datagrams", WARNING if parts else OK, "; ".join(parts))


def _loss(direction: str, documents: int, lost: int, full: int) -> str:
    """Describe the loss of one direction; empty if there were few documents or losses."""
    if documents < SAMPLE or lost + full <= documents * LOSS_MAX:
        return ""
    dropped = f", and {full / documents:.0%} dropped by the receiver for lack of room" if full else ""
    return f"{lost / documents:.0%} of {documents} documents {direction} in {WINDOW_MINUTES} minutes lost{dropped}"


def _companion(name: str, state: Mapping[str, Any]) -> Check:
    if not state["running"]:
        ended = f"the process ended with status {state['exit']} and is started again"
        return Check(name, FAILING, ended if state["exit"] is not None else "the process has not started yet")
    failing = state.get("failing", {})
    if not failing:
        return Check(name, OK)
    verdict = FAILING if any(state["is_paused"] for state in failing.values()) else WARNING
    return Check(name, verdict, _listed([_describe(section, state) for section, state in failing.items()]))


def _credential_files(files: Sequence[Mapping[str, Any]], warn_days: float) -> Check:
    """Return the check of the files that the configuration names: it fails if one cannot be used, or has ended."""
    broken = [f"{row['setting']}: {row['fault']} ({row['file']})" for row in files if row["fault"]]
    ends = [row for row in files if row["days_left"] is not None and row["days_left"] <= warn_days]
    ending = [f"{row['setting']}: {row['days_left']} days left, until {row['not_after']}" for row in ends]
    has_ended = any(row["days_left"] <= 0 for row in ends)
    verdict = FAILING if broken or has_ended else WARNING if ending else OK
    return Check("files", verdict, _listed([*broken, *ending]))


def _listed(texts: Sequence[str]) -> str:
    """Return the first ``SHOWN_MAX`` entries of a list, and the number of the remaining ones."""
    more = [f"{len(texts) - SHOWN_MAX} more in node.status"] if len(texts) > SHOWN_MAX else []
    return "; ".join([*texts[:SHOWN_MAX], *more])


def _describe(section: str, state: Mapping[str, Any]) -> str:
    times = "1 failure" if state["failures"] == 1 else f"{state['failures']} failures in a row"
    paused = ", paused" if state["is_paused"] else ""
    return f"{section}: {times} since {utc_text(state['since'])}{paused}: {state['error']}"


def _telemetry(state: Mapping[str, Any]) -> Check:
    """Return the check of the export of spans, at worst a warning: no document depends on it."""
    if state["failures"] < TELEMETRY_FAILURES:
        return Check("telemetry", OK)
    since = f"{state['failures']} failures in a row since {utc_text(state['failing_since'])}"
    lost = f", {state['dropped']} spans dropped" if state["dropped"] else ""
    return Check("telemetry", WARNING, f"{since}{lost}: {state['last_error']}")


def _about_submissions(status: Status, counts: Mapping[str, int]) -> Iterable[str]:
    if counts["refused"]:
        yield f"documents submitted by SQL were refused ({counts['refused']}): `semq failed list`"
    for target, why in sorted(status.get("sql_waiting", {}).items()):
        yield f"documents submitted by SQL for {target} wait: {why}"


def _violations(violations: Sequence[Mapping[str, Any]]) -> str:
    texts = []
    for violation in violations:
        times, last = _times(violation["count"]), utc_text(violation["last"])
        texts.append(f"{violation['who']}: {violation['what']} {times}, last {last} ({violation['text']})")
    return _listed(texts)


def _refused(rows: Mapping[str, Any]) -> str:
    times, last, rule = _times(rows["count"]), utc_text(rows["last"]), rows["rule"] or "others"
    return f"Postgres refused a row {times}, last {last} ({rule}, SQLSTATE {rows['sqlstate']}): {rows['text']}"


def _times(count: int) -> str:
    return "1 time" if count == 1 else f"{count} times"


def health(node: str, results: Sequence[Check]) -> dict[str, Any]:
    """Return the answer of ``node.health``: the worst verdict, and every check."""
    worst = max((check.verdict for check in results), key=VERDICTS.index)
    rows = [{"check": check.name, "verdict": check.verdict, "detail": check.detail} for check in results]
    return {"node": node, "verdict": worst, "checks": rows}
