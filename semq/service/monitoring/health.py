"""Health of a node: checks with their verdicts (``node.health``), derived from ``node.status``."""

from collections.abc import Iterable, Mapping, Sequence

from semq.answers.status import (
    Check,
    CompanionStatus,
    FailingSection,
    FileStatus,
    LossState,
    NodeHealth,
    NodeStatus,
    PathState,
    RefusedRowState,
    TelemetryStatus,
    ViolationState,
)
from semq.datagrams.rate import LOSS_MAX, SAMPLE
from semq.datagrams.recent import WINDOW_MINUTES
from semq.datagrams.session import NO_LINK
from semq.moments import utc_text

OK, WARNING, FAILING = VERDICTS = ("ok", "warning", "failing")
TELEMETRY_FAILURES = 3  # failed requests to the collector, in a row, that cause a warning
SHOWN_MAX = 5  # entries of a list in a detail
DRAINED = "drained by an operator: no document is accepted before the next start of the node"
NOT_DIALLED = "the partner has not dialled"
WENT_BACK = "it lacks commits (the operator's guide, Backup and restore): "
REVOKED = "revoked by the hub: enrol the node again with a new token (`semq hub nodes token` at the hub)"
CERTIFICATE = {"ok": OK, "renew": OK, "ending": WARNING, "expired": FAILING, "revoked": FAILING}


def checks(status: NodeStatus, warn_days: float) -> list[Check]:
    """Derive the checks from the status of a node.

    ``warn_days``: a certificate that a file of the configuration contains, or one of an institution at a hub, causes a
    warning if it ends within this time.
    """
    return [
        _store(status), *_around_store(status), *_links(status), *_intake(status), *_certificates(status, warn_days),
        *_resources(status), *_programs(status), *_reports(status),
    ]  # fmt: skip


def _store(status: NodeStatus) -> Check:
    if not status.store_open:
        return Check("store", FAILING, "being opened")
    parts = [WENT_BACK + (status.missing_commits or "")] if status.store is not None and status.store.went_back else []
    if missing := status.missing:
        parts += [f"documents that it lacks: {missing.count} (`semq node missing`)"] if missing.count else []
        parts += [f"partners to be asked yet: {missing.unanswered}"] if missing.unanswered else []
    return Check("store", WARNING if parts else OK, "; ".join(parts))


def _around_store(status: NodeStatus) -> Iterable[Check]:
    """Yield findings about the database that do not close the store; none if all is well."""
    if status.database:
        yield Check("database", WARNING, _listed(status.database))
    if status.refused_rows:
        yield Check("rows", WARNING, _listed([_refused(rows) for rows in status.refused_rows]))
    if status.failing_jobs:
        yield Check(
            "jobs", WARNING, _listed([f"{name}: {error}" for name, error in sorted(status.failing_jobs.items())])
        )


def _links(status: NodeStatus) -> Iterable[Check]:
    if link := status.link:
        yield Check("link", OK if link.is_up else FAILING, "" if link.is_up else link.last_error or "not dialled yet")
    if status.direct:
        errors = {partner: link.last_error for partner, link in status.direct.items() if not link.is_up}
        down = [f"{partner}: {error or NOT_DIALLED}" for partner, error in errors.items()]
        yield Check("direct", WARNING if down else OK, "; ".join(down))
    if status.datagrams is not None:
        yield _datagrams(status.datagrams.peers)


def _intake(status: NodeStatus) -> Iterable[Check]:
    if status.drained is not None:
        yield Check("intake", WARNING if status.drained else OK, DRAINED if status.drained else "")


def _certificates(status: NodeStatus, warn_days: float) -> Iterable[Check]:
    own = status.certificate
    if own is not None:
        detail = REVOKED if own.state == "revoked" else f"{own.days_left} days left, renewal at {own.renew_at}"
        verdict = CERTIFICATE[own.state]
        if own.fault:
            detail = f"{detail}; replaced files are not used: {own.fault}"
            verdict = WARNING if verdict == OK else verdict
        yield Check("certificate", verdict, detail)
    if status.credential_files:
        yield _credential_files(status.credential_files, warn_days)
    if status.certificates is not None:
        ending = [f"{node}: {days} days" for node, days in sorted(status.certificates.items()) if days <= warn_days]
        yield Check("certificates", WARNING if ending else OK, ", ".join(ending))


def _resources(status: NodeStatus) -> Iterable[Check]:
    why = status.shortage
    yield Check("resources", WARNING if why else OK, f"publishers wait: {why}" if why else "")
    full = [node for node, partner in sorted((status.partners or {}).items()) if partner.quota_reached]
    if full:
        yield Check("quotas", WARNING, f"no further documents are taken for {', '.join(full)}")
    if status.sql_submissions is not None:
        detail = ", ".join(_about_submissions(status, status.sql_submissions))
        yield Check("submissions", WARNING if detail else OK, detail)


def _programs(status: NodeStatus) -> Iterable[Check]:
    for section, companion in (status.companions or {}).items():
        yield _companion(section, companion)
    if status.telemetry is not None:
        yield _telemetry(status.telemetry)


def _reports(status: NodeStatus) -> Iterable[Check]:
    if status.violations:
        yield Check("violations", WARNING, _violations(status.violations))
    if extract := status.extract:
        yield Check("extract", WARNING if extract.exit_status else OK, f"{extract.at}: {extract.output}")


def _datagrams(peers: Mapping[str, PathState]) -> Check:
    """Return the check of datagrams. It warns of recent loss, and of a closed path to a linked peer if documents had to
    use the AMQP connection since the path closed.
    """
    closed, lossy = [], []
    for peer, path in sorted(peers.items()):
        if path.state != "open" and path.why != NO_LINK and path.not_open_now:
            closed.append(f"{peer}: {path.why}")
        losses = _loss("to it", path.recent_there), _loss("from it", path.recent_here)
        lossy += [f"{peer}: {loss}" for loss in losses if loss]
    parts = [f"documents with @Reliable=0 are sent over the AMQP connection; {_listed(closed)}"] if closed else []
    parts += [f"{_listed(lossy)}: send fewer, or with @Reliable=1"] if lossy else []
    return Check("datagrams", WARNING if parts else OK, "; ".join(parts))


def _loss(direction: str, recent: LossState) -> str:
    """Describe the loss of one direction; empty if there were few documents or losses."""
    documents, lost, full = recent.documents, recent.lost, recent.full
    if documents < SAMPLE or lost + full <= documents * LOSS_MAX:
        return ""
    dropped = f", and {full / documents:.0%} dropped by the receiver for lack of room" if full else ""
    return f"{lost / documents:.0%} of {documents} documents {direction} in {WINDOW_MINUTES} minutes lost{dropped}"


def _companion(name: str, state: CompanionStatus) -> Check:
    if not state.running:
        ended = f"the process ended with status {state.exit} and is started again"
        return Check(name, FAILING, ended if state.exit is not None else "the process has not started yet")
    if not state.failing:
        return Check(name, OK)
    verdict = FAILING if any(section.is_paused for section in state.failing.values()) else WARNING
    return Check(name, verdict, _listed([_describe(section, state) for section, state in state.failing.items()]))


def _credential_files(files: Sequence[FileStatus], warn_days: float) -> Check:
    """Return the check of the files that the configuration names: it fails if one cannot be used, or has ended."""
    broken = [f"{row.setting}: {row.fault} ({row.file})" for row in files if row.fault]
    ends = [(row, row.days_left) for row in files if row.days_left is not None and row.days_left <= warn_days]
    ending = [f"{row.setting}: {days} days left, until {row.not_after}" for row, days in ends]
    has_ended = any(days <= 0 for _, days in ends)
    verdict = FAILING if broken or has_ended else WARNING if ending else OK
    return Check("files", verdict, _listed([*broken, *ending]))


def _listed(texts: Sequence[str]) -> str:
    """Return the first ``SHOWN_MAX`` entries of a list, and the number of the remaining ones."""
    more = [f"{len(texts) - SHOWN_MAX} more in node.status"] if len(texts) > SHOWN_MAX else []
    return "; ".join([*texts[:SHOWN_MAX], *more])


def _describe(section: str, state: FailingSection) -> str:
    times = "1 failure" if state.failures == 1 else f"{state.failures} failures in a row"
    paused = ", paused" if state.is_paused else ""
    return f"{section}: {times} since {utc_text(state.since)}{paused}: {state.error}"


def _telemetry(state: TelemetryStatus) -> Check:
    """Return the check of the export of spans, at worst a warning: no document depends on it."""
    if state.failures < TELEMETRY_FAILURES or state.failing_since is None:
        return Check("telemetry", OK)
    since = f"{state.failures} failures in a row since {utc_text(state.failing_since)}"
    lost = f", {state.dropped} spans dropped" if state.dropped else ""
    return Check("telemetry", WARNING, f"{since}{lost}: {state.last_error}")


def _about_submissions(status: NodeStatus, counts: Mapping[str, int]) -> Iterable[str]:
    if counts["refused"]:
        yield f"documents submitted by SQL were refused ({counts['refused']}): `semq failed list`"
    for target, why in sorted((status.sql_waiting or {}).items()):
        yield f"documents submitted by SQL for {target} wait: {why}"


def _violations(violations: Sequence[ViolationState]) -> str:
    texts = []
    for violation in violations:
        times, last = _times(violation.count), utc_text(violation.last)
        texts.append(f"{violation.who}: {violation.what} {times}, last {last} ({violation.text})")
    return _listed(texts)


def _refused(rows: RefusedRowState) -> str:
    times, last, rule = _times(rows.count), utc_text(rows.last), rows.rule or "others"
    return f"Postgres refused a row {times}, last {last} ({rule}, SQLSTATE {rows.sqlstate}): {rows.text}"


def _times(count: int) -> str:
    return "1 time" if count == 1 else f"{count} times"


def health(node: str, results: Sequence[Check]) -> NodeHealth:
    """Return the answer of ``node.health``."""
    worst = max((check.verdict for check in results), key=VERDICTS.index)
    return NodeHealth(node=node, verdict=worst, checks=results)
