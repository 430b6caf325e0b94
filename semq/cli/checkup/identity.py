"""Checks of a node's keys, its certificate and its authority."""

from collections.abc import Iterator

from semq.cli.checkup.finding import FAILING, OK, WARNING, Finding, failing
from semq.clock import SystemClock
from semq.config.settings import Settings
from semq.errors import SemqError
from semq.service.credentials.identity import days_left, ring_of, trust_of

BY_HAND = "No hub renews it: `semq cert request`, have it signed, `semq cert install`, `semq cert rotate`."


def check(settings: Settings) -> Iterator[Finding]:
    """Check the slots of a node; a node that needs no certificate has no findings."""
    is_by_hub = settings.hub is not None and settings.hub.is_tls
    if not (settings.amqp.tls or settings.direct or is_by_hub):
        return
    ring, now = ring_of(settings), SystemClock().wall()
    try:
        if not ring.is_enrolled and settings.node.kind == "platform":
            yield Finding("certificate", OK, "none yet; the first start makes an authority and a certificate")
            return
        certificate = ring.identity().certificate
        trust = trust_of(settings, ring)
        left = days_left(certificate.not_after, now)
        if left > 0:
            trust.verify(certificate, now, chain=ring.chain(certificate.key_id))
    except SemqError as error:
        yield failing("certificate", error)
        return
    detail = f"{certificate.node}, {left:.0f} days left, keys in {ring.folder}"
    if left <= 0:
        advice = "A running node would have renewed it. Enrol again: a token by `semq hub nodes token` at the hub."
        advice = BY_HAND if settings.has_no_hub else advice
        yield Finding("certificate", FAILING, f"{certificate.node}, ended {-left:.0f} days ago", advice)
    elif left <= settings.tls.warn_days:
        advice = "The node renews it while it runs and reaches its hub: see `link`."
        yield Finding("certificate", WARNING, detail, BY_HAND if settings.has_no_hub else advice)
    else:
        yield Finding("certificate", OK, detail)
    for authority in trust.authorities:
        ends = days_left(authority.not_valid_after_utc, now)
        if ends <= settings.tls.warn_days:
            verdict = FAILING if ends <= 0 else WARNING
            name = authority.subject.rfc4514_string()
            advice = "OPERATIONS.md, the hub's authority: a second one has to be trusted before the first ends."
            yield Finding("authority", verdict, f"{name}, {ends:.0f} days left", advice)
