"""Rows that may be stuck; ``semq.engine.people.stuck`` decides about each of them, and names the cause. Read-only."""

from sqlalchemy import and_, func, or_

from semq.store.views.messages import RETURNED, owed
from semq.store.views.pages import Subset
from semq.store.views.submissions import IS_IN_PIECES, IS_REFUSED, IS_SCHEDULED
from semq.umx_t.status import AppStatus, Outcome


def candidates(late_before_ms: int) -> Subset:
    """Return the rows that may be stuck: open since before ``late_before_ms``, or waiting for an operator.

    Submissions that only wait for their time (``@NotBefore``) are not among them.
    """
    late = func.to_timestamp(late_before_ms / 1000)
    return Subset(
        outbound=lambda c: or_(
            and_(c.outcome.is_(None), or_(c.accepted_at < late, c.held, c.parked)),
            c.outcome == Outcome.REJECTED,
            and_(or_(c.outcome.is_(None), c.outcome == Outcome.UNKNOWN), c.reason_code == RETURNED),
        ),
        inbound=lambda c: or_(
            c.app_status == AppStatus.PARKED,
            and_(
                c.received_at < late,
                or_(c.app_status == AppStatus.NEW, *owed(c)),
            ),
        ),
        submitted=or_(IS_REFUSED, IS_IN_PIECES, ~IS_SCHEDULED),
    )
