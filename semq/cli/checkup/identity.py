"""Checks of a node's keys, its certificate and its authority.

``hub_link`` finds out whether the hub has revoked the certificate.
"""

from collections.abc import Iterator

from semq.cli.checkup.finding import FAILING, OK, WARNING, Finding, failing
from semq.clock import SystemClock
from semq.config.settings import Settings
from semq.errors import SemqError
from semq.service.credentials.identity import days_left, ring_of, trust_of

RENEW_BY_HAND = "No hub renews it: `semq cert request`, have it signed, `semq cert install`, `semq cert rotate`."


def check(settings: Settings) -> Iterator[Finding]:
    """Check the active certificate and the trusted authorities; no findings if nothing uses TLS."""
    is_hub_link_tls = settings.hub is not None and settings.hub.is_tls
    if not (settings.amqp.tls or settings.direct or is_hub_link_tls):
        return
    ring, now = ring_of(settings), SystemClock().wall()
    try:
        if not ring.is_enrolled and settings.node.kind == "platform":
            yield Finding("certificate", OK, "none yet; the first start creates an authority and a certificate")
            return
        certificate = ring.identity().certificate
        trust = trust_of(settings, ring)
        remaining_days = days_left(certificate.not_after, now)
        if remaining_days > 0:
            trust.verify(certificate, now, chain=ring.chain(certificate.key_id))
    except SemqError as error:
        yield failing("certificate", error)
        return
    detail = f"{certificate.node}, {remaining_days:.0f} days left, keys in {ring.folder}"
    if remaining_days <= 0:
        advice = "Enrol the node again, with a token from `semq hub nodes token` at the hub."
        advice = RENEW_BY_HAND if settings.has_no_hub else advice
        yield Finding("certificate", FAILING, f"{certificate.node}, ended {-remaining_days:.0f} days ago", advice)
    elif remaining_days <= settings.tls.warn_days:
        advice = "The node renews it while it runs and its link to the hub is up: see the finding `link`."
        yield Finding("certificate", WARNING, detail, RENEW_BY_HAND if settings.has_no_hub else advice)
    else:
        yield Finding("certificate", OK, detail)
    for authority in trust.authorities:
        remaining_days = days_left(authority.not_valid_after_utc, now)
        if remaining_days <= settings.tls.warn_days:
            verdict = FAILING if remaining_days <= 0 else WARNING
            name = authority.subject.rfc4514_string()
            advice = "Change the authority before it ends: the operator's guide, *Certificates and keys*."
            yield Finding("authority", verdict, f"{name}, {remaining_days:.0f} days left", advice)
