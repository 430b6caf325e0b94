"""Excuses: a revocation explains alarms at the right node and about the right institution only."""

import pytest

from semq.engine.violations import LINES_PER_MINUTE
from semq.installation.configuration import HUB
from semq.store.rows import Event, Side
from tests.crash.excuses import MORE, AlarmLine, CertificateChanges
from tests.crash.world import ADDRESS, OTHER, A, B, C

OF_A, OF_B = f"{ADDRESS[A]}.1.1.7.1", f"{ADDRESS[B]}.1.1.7.1"


def changes(**revoked: int) -> CertificateChanges:
    """Return changes with these numbers of revocations, by node."""
    changed = CertificateChanges(ADDRESS, OTHER)
    changed.revoked.update(revoked)
    return changed


def alarm(node: str, detail: str, lk0: str = "", event: Event = Event.VIOLATION) -> AlarmLine:
    """Return an alarm in the ledger of a node, about the message ``lk0``; without one, about institution A."""
    side = Side.HUB if node == HUB else Side.RECEIVER
    return AlarmLine(node, side, event, lk0, ADDRESS[A], detail)


GONE = alarm(B, "SEMQ-5214 No valid certificate belongs to key 0 any more.", OF_A)
UNVOUCHED = alarm(B, "SEMQ-5216 another certificate (fingerprint='1')")
VOIDED = alarm(HUB, "", OF_A, event=Event.VOIDED)


def test_an_alarm_about_a_revoked_institution_is_explained_at_a_further_receiver() -> None:
    changed = CertificateChanges(ADDRESS, OTHER, receivers=(C,))
    changed.revoked.update(a=1)
    at_c = GONE._replace(node=C)
    assert list(changed.unexplained([at_c])) == []
    assert list(changes(a=1).unexplained([at_c])) == [at_c]


@pytest.mark.parametrize("line", [GONE, UNVOUCHED, alarm(B, "SEMQ-5204 The certificate is not known here.")])
def test_an_alarm_about_a_revoked_institution_is_explained_at_its_partner_alone(line: AlarmLine) -> None:
    assert list(changes(a=1).unexplained([line])) == []
    assert list(changes().unexplained([line])) == [line]
    assert list(changes(b=1).unexplained([line])) == [line]
    for node in (A, HUB):
        at_node = line._replace(node=node)
        assert list(changes(a=1, b=1).unexplained([at_node])) == [at_node]
    about_b = line._replace(lk0=OF_B if line.lk0 else "", target=ADDRESS[B])
    assert list(changes(a=1).unexplained([about_b])) == [about_b]


@pytest.mark.parametrize(
    "line",
    [
        alarm(B, "SEMQ-5205 It is not signed.", OF_A),
        alarm(B, "SEMQ-5214 is named by this text alone", OF_A, event=Event.MISMATCH),
        alarm(B, "SEMQ-5214 refused", OF_A, event=Event.REFUSED),
        alarm(B, "SEMQ-5214 parked", OF_A, event=Event.PARKED),
    ],
)
def test_no_revocation_explains_other_alarms(line: AlarmLine) -> None:
    assert list(changes(a=9, b=9).unexplained([line], [OF_A])) == [line]


def test_as_many_lines_are_explained_as_certificates_were_issued() -> None:
    second = UNVOUCHED._replace(detail="SEMQ-5216 another certificate (fingerprint='2')")
    assert list(changes(a=2).unexplained([UNVOUCHED, second])) == []
    assert list(changes(a=1).unexplained([UNVOUCHED, second])) == [UNVOUCHED, second]
    assert list(changes(a=2).unexplained([UNVOUCHED, UNVOUCHED])) == [UNVOUCHED, UNVOUCHED]
    renewed = changes(a=1)
    renewed.renewed[A] += 1
    assert list(renewed.unexplained([UNVOUCHED, second])) == []


def test_a_line_about_further_violations_is_explained_by_a_full_minute_of_explained_lines() -> None:
    further = alarm(B, f"3{MORE}60 s have no line of their own.")
    full_minute = [GONE] * LINES_PER_MINUTE
    assert list(changes(a=1).unexplained([*full_minute, further])) == []
    assert list(changes(a=1).unexplained([*full_minute[1:], UNVOUCHED, further])) == []
    assert list(changes(a=1).unexplained([*full_minute[1:], further])) == [further]
    assert list(changes(b=1).unexplained([*full_minute, further])) == [*full_minute, further]


def test_a_marker_at_the_hub_is_explained_by_the_outcome_at_its_sender() -> None:
    assert list(changes(a=1).unexplained([VOIDED], [OF_A])) == []
    assert list(changes(a=1).unexplained([VOIDED], [OF_B])) == [VOIDED]
    at_sender = VOIDED._replace(node=A, side=Side.SENDER)  # no document is cancelled, and none expires
    assert list(changes(a=1).unexplained([at_sender], [OF_A])) == [at_sender]


def test_documents_are_resealed_only_after_a_change_of_keys() -> None:
    assert changes().codes_of_resealing(A) == set()
    assert changes(a=1).codes_of_resealing(A) == {"SEMQ-5214"}
    assert changes(b=1).codes_of_resealing(A) == {"SEMQ-5201"}
    renewed = changes()
    renewed.renewed[B] += 1
    assert (renewed.codes_of_resealing(A), renewed.codes_of_resealing(B)) == ({"SEMQ-5201"}, set())


def test_rows_may_stay_only_at_a_revoked_sender_and_its_partner() -> None:
    changed = changes(a=1)
    assert changed.conditions_of_staying_rows(HUB) == {}
    assert set(changed.conditions_of_staying_rows(A)) == {"tb_0031", "tb_0031_body"}
    assert set(changed.conditions_of_staying_rows(B)) == {"tb_0030", "tb_0030_body"}
    assert all(
        f"'{ADDRESS[A]}.%'" in changed.conditions_of_staying_rows(B)[table]
        for table in changed.conditions_of_staying_rows(B)
    )
    assert not any(changes().conditions_of_staying_rows(node) for node in (HUB, A, B))
