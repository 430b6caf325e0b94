"""Documents to a group, or to all users of an institution: a message for each member, or none."""

import pytest
from msgspec.structs import replace

from semq.engine import partners
from semq.engine.errors import DirectoryTooLarge, GroupRefused, GroupWaits, QuotaReached
from semq.engine.hub.sessions import PAUSE_S
from semq.engine.hub_engine import HubEngine
from semq.engine.partners import KnownGroup
from semq.engine.ports import Submission
from semq.engine.sender import groups
from semq.engine.sender.scheduling import envelope_of
from semq.store.rows import Event, GroupPlace
from semq.umx_t.address import Address
from semq.umx_t.agreement import Terms
from semq.umx_t.envelope import Attributes
from semq.umx_t.records import Presence
from semq.umx_t.status import AppStatus
from tests.flows.trio import Trio

MEMBERS = ["1.10008", "1.56001", "1.56002", "1.56003"]
TARGETS = [each for each in MEMBERS if each != "1.10008"]


class GroupTrio(Trio):
    """The directory of A has a group of A, B and two institutions that are never online."""

    def __init__(self) -> None:
        super().__init__(connected=False)
        self.directory = type(self.directory)([each[2:] for each in MEMBERS])
        self.directory.group_members["3.retailers"] = MEMBERS
        self.start_hub()
        for node in self.nodes:
            self.connect(node)
        self.settle()

    @property
    def codes(self) -> list[str]:
        return [str(getattr(error, "code", error)) for error in self.a.refused]

    @property
    def targets(self) -> list[str]:
        return sorted(str(row.target) for row in self.a.store.tables.outbound.values())


def test_one_submission_becomes_a_message_for_each_member_except_the_sender() -> None:
    trio = GroupTrio()
    trio.lose = lambda wire, frame: True
    trio.a.send(b"x", to="3.retailers/desk", token="t", order_key="k")
    trio.settle()
    (accepted,) = trio.a.accepted
    assert accepted.members == 3
    assert trio.targets == [f"{each}/desk" for each in TARGETS]
    tables = trio.a.store.tables
    assert [row.object_id - accepted.lk0.object_id for row in tables.outbound.values()] == [1, 2, 3]
    lines = [line for line in tables.ledger if line.event is Event.ACCEPTED]
    assert lines[0].detail == f"SaveFwd=3 Ack2=1, member 1 of 3 of {accepted.lk0} to 3.retailers/desk"
    assert len({(line.lk0, line.target) for line in lines}) == 3


def test_each_member_has_a_receipt_of_its_own() -> None:
    trio = GroupTrio()
    trio.a.send(b"x", to="3.retailers")
    trio.settle()
    trio.later(5)
    assert trio.b.app.payloads == [b"x"]
    assert trio.targets == ["1.56002", "1.56003"]
    delivered = [event for event in trio.a.reported.events if event.kind == "delivered"]
    assert [str(event.target) for event in delivered] == ["1.56001"]
    (accepted,) = trio.a.accepted
    assert delivered[0].group == GroupPlace(1, 3, str(accepted.lk0), "3.retailers")


def test_a_repeated_token_sends_nothing_even_if_the_group_has_changed() -> None:
    trio = GroupTrio()
    trio.a.send(b"x", to="3.retailers", token="t")
    trio.settle()
    trio.directory.group_members["3.retailers"] = MEMBERS[:2]
    trio.hub.send_changed_directory()
    trio.settle()
    assert trio.a.engine.partners.groups["3.retailers"].members == ("1.56001",)
    trio.a.send(b"x", to="3.retailers", token="t")
    trio.a.send(b"y", to="3.retailers", token="t")
    trio.settle()
    first, again = trio.a.accepted
    assert (again.lk0, again.repeated) == (first.lk0, True)
    assert trio.codes == ["SEMQ-1205"]
    assert trio.targets == ["1.56002", "1.56003"]


def test_a_group_that_no_longer_exists_is_unknown() -> None:
    trio = GroupTrio()
    trio.directory.group_members.clear()
    trio.hub.send_changed_directory()
    trio.settle()
    trio.a.send(b"x", to="3.retailers")
    assert trio.codes == ["SEMQ-1201"]
    trio.directory.group_members["3.other"] = MEMBERS
    trio.cut(trio.a)
    trio.connect(trio.a)
    trio.settle()
    assert list(trio.a.engine.partners.groups) == ["3.other"]


def test_a_group_is_refused_temporarily_until_the_hub_has_named_all_groups() -> None:
    trio = GroupTrio()
    trio.cut(trio.a)
    trio.a.crash()
    trio.a.start()
    trio.a.send(b"x", to="3.retailers", token="t")
    trio.settle()
    assert trio.codes == ["SEMQ-1237"]
    trio.connect(trio.a)
    trio.settle()
    trio.a.send(b"x", to="3.retailers", token="t")
    trio.settle()
    assert trio.codes == ["SEMQ-1237"]
    (accepted,) = trio.a.accepted
    assert accepted.members == 3


def test_a_document_is_accepted_for_all_members_or_none() -> None:
    trio = GroupTrio()
    partners = trio.a.engine.partners
    partners.terms["1.56002"] = (Terms(types=("invoice",)),)
    trio.a.send(b"x", to="3.retailers")
    assert trio.codes == ["SEMQ-1236"]
    assert (trio.a.refused[0].facts["members"], trio.a.refused[0].facts["of"]) == ("1.56002 SEMQ-1211", 3)  # type: ignore[attr-defined]
    partners.terms.clear()
    partners.groups["3.retailers"] = KnownGroup(("1.56001",), others=2)
    trio.a.send(b"x", to="3.retailers")
    assert trio.codes == ["SEMQ-1236"] * 2
    trio.settle()
    assert trio.targets == []


def test_a_document_is_refused_temporarily_if_a_member_has_reached_its_limit() -> None:
    trio = GroupTrio()
    partners = trio.a.engine.partners
    partners.terms["1.56003"] = (Terms(waiting_max=1),)
    for _ in range(2):
        trio.a.send(b"x", to="3.retailers")
        trio.settle()
    assert trio.codes == ["SEMQ-1237"]
    partners.terms["1.56001"] = (Terms(per_minute=1),)
    trio.a.refused.clear()
    partners.terms.pop("1.56003")
    for _ in range(2):
        trio.a.send(b"x", to="3.retailers")
        trio.settle()
    assert trio.codes == ["SEMQ-1237"]
    assert str(QuotaReached.code) not in trio.codes


def test_a_document_that_one_member_refuses_does_not_use_up_the_rates_of_the_others() -> None:
    trio = GroupTrio()
    terms = trio.a.engine.partners.terms
    terms["1.56001"] = terms["1.56003"] = (Terms(per_minute=1),)
    terms["1.56002"] = (Terms(),)
    trio.a.send(b"x", to="56003")
    trio.a.send(b"x", to="3.retailers")
    assert trio.codes == ["SEMQ-1237"]
    trio.a.send(b"x", to="56001")
    assert trio.codes == ["SEMQ-1237"]
    trio.a.send(b"x", to="56001")
    assert trio.codes == ["SEMQ-1237", "SEMQ-1213"]


def test_a_token_belongs_to_the_submission_to_the_group() -> None:
    trio = GroupTrio()
    for body in (b"x", b"x", b"other"):
        trio.a.send(body, to="3.retailers", token="t")
        trio.settle()
    first, again = trio.a.accepted
    assert (again.repeated, again.lk0) == (True, first.lk0)
    assert {name: known.lk0 for name, known in trio.a.store.tables.tokens.items()} == {"t": first.lk0}
    assert trio.codes == ["SEMQ-1205"]


def test_a_group_beyond_the_bounds_of_the_directory_is_refused_permanently(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partners, "MEMBERS_MAX", 2)
    trio = GroupTrio()
    trio.a.send(b"x", to="3.retailers")
    assert trio.codes == ["SEMQ-1236"]
    assert "more partners and groups than this node keeps" in str(trio.a.refused[0])


def test_a_group_is_not_refused_permanently_before_the_list_of_the_hub_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partners, "PARTNERS_MAX", 1)
    known = partners.Partners()
    expansion = groups.GroupExpansion(known)
    document = Submission(Address(3, "g"), Attributes(), b"x", print, print)
    with pytest.raises(DirectoryTooLarge):
        known.learn([Presence(node="1.a"), Presence(node="1.b")])
    with pytest.raises(GroupWaits):
        expansion.targets_of(document, 1)
    known.learn([Presence(node="3.g", members=("1.a",)), Presence(node="", complete=True)])
    assert expansion.targets_of(document, 1) == (Address(1, "a"),)
    with pytest.raises(GroupRefused):
        expansion.targets_of(replace(document, target=Address(3, "other")), 1)


def test_documents_to_groups_must_be_of_class_3() -> None:
    trio = GroupTrio()
    trio.a.send(b"x", to="3.retailers", save_fwd=2)
    assert trio.codes == ["SEMQ-1104"]


def test_memory_for_documents_to_groups_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    trio = GroupTrio()
    monkeypatch.setattr(groups, "BYTES_MAX", 30)
    trio.a.send(b"x" * 11, to="3.retailers")
    assert trio.codes == ["SEMQ-1203"]
    monkeypatch.setattr(groups, "UNCOMMITTED_MAX", 5)
    trio.a.send(b"1", b"2", to="3.retailers")
    assert isinstance(trio.a.refused[-1], GroupWaits)
    trio.settle()
    trio.a.send(b"3", to="3.retailers")
    trio.settle()
    assert [each.members for each in trio.a.accepted] == [3, 3]


def test_a_crash_before_the_commit_sends_to_no_member_and_a_crash_after_it_to_all() -> None:
    trio = GroupTrio()
    trio.a.send(b"lost", to="3.retailers", token="1")
    trio.a.crash()
    trio.connect(trio.a)
    trio.settle()
    assert (trio.a.accepted, trio.targets) == ([], [])
    trio.lose = lambda wire, frame: True
    trio.a.send(b"kept", to="3.retailers", token="2")
    trio.a.store.run()
    trio.a.crash()
    trio.lose = lambda wire, frame: False
    trio.connect(trio.a)
    trio.later(60)
    assert trio.b.app.payloads == [b"kept"]
    assert (trio.targets, len(trio.a.accepted)) == (["1.56002", "1.56003"], 1)


def test_a_scheduled_document_to_a_group_waits_as_one_submission() -> None:
    trio = GroupTrio()
    trio.a.send(b"x", to="3.nobody", not_before=trio.a.engine.core.now_ms() + 5000)
    assert trio.codes == ["SEMQ-1201"]
    trio.a.send(b"x", to="3.retailers", not_before=trio.a.engine.core.now_ms() + 5000)
    trio.settle()
    assert trio.targets == []
    assert len(trio.a.store.tables.submitted) == 1


USERS = [f"1.56001/{name}" for name in ("desk", "sales")]


class UsersTrio(GroupTrio):
    """The directory of A has the users of B, and those of A."""

    def __init__(self) -> None:
        super().__init__()
        self.directory.group_members |= {"4.56001": USERS, "4.10008": ["1.10008/desk", "1.10008/sales"]}
        self.hub.send_changed_directory()
        self.settle()


def test_a_document_to_all_users_of_an_institution_has_a_receipt_for_each() -> None:
    trio = UsersTrio()
    trio.a.send(b"x", to="4.56001", token="t")
    trio.settle()
    trio.later(5)
    (accepted,) = trio.a.accepted
    assert accepted.members == 2
    delivered = [event for event in trio.a.reported.events if event.kind == "delivered"]
    assert sorted(str(event.target) for event in delivered) == USERS
    details = [line.detail for line in trio.a.store.tables.ledger if line.event is Event.ACCEPTED]
    assert details == [f"SaveFwd=3 Ack2=1, member {n} of 2 of {accepted.lk0} to 4.56001" for n in (1, 2)]


def test_a_document_to_all_users_of_the_own_institution_is_delivered_to_each() -> None:
    trio = UsersTrio()
    trio.a.send(b"x", to="4.10008")
    trio.settle()
    trio.later(5)
    assert trio.codes == []
    assert sorted(str(event.target) for event in trio.a.reported.events if event.kind == "delivered") == [
        "1.10008/desk", "1.10008/sales",
    ]  # fmt: skip


def test_the_address_of_all_users_names_no_user() -> None:
    trio = UsersTrio()
    trio.a.send(b"x", to="4.56001/desk")
    trio.a.send(b"x", to="4.56002")
    assert trio.codes == ["SEMQ-1101", "SEMQ-1201"]


def test_a_change_of_users_that_the_definitions_do_not_name_sends_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    trio, sent = UsersTrio(), list[Address]()
    monkeypatch.setattr(HubEngine, "_send_presence", lambda engine, node, *, online: sent.append(node))
    node, reports = trio.b.engine.core.address, trio.hub.user_reports
    reports.note(node, ("other",))
    assert sent == []
    trio.later(PAUSE_S)
    reports.note(node, ("desk", "other"))
    assert sent == [node]


def test_fixed_documents_to_all_users_form_a_sequence_for_each_user() -> None:
    """A user whose inbox nobody consumes does not keep the documents of the other users waiting."""
    trio = GroupTrio()
    trio.directory.group_members["4.56001"] = ["1.56001/desk", "1.56001/sales"]
    trio.hub.send_changed_directory()
    trio.settle()
    trio.b.app.free = lambda user: 0 if user == "desk" else 9  # type: ignore[method-assign]
    trio.a.send(b"1", b"2", to="4.56001", fixed=True)
    trio.a.send(b"3", to="56001/sales", fixed=True)
    trio.settle()
    trio.b.engine.handover.feed("sales")
    trio.settle()
    assert trio.b.app.payloads == [b"1", b"2", b"3"]
    assert {delivery.envelope.attributes.order_key for delivery in trio.b.app.deliveries} == {"@Fixed/sales"}
    waiting = trio.b.store.tables.pending.values()
    assert [(row.order_key, row.app_status) for row in waiting] == [("@Fixed/desk", AppStatus.NEW)] * 2


def test_a_scheduled_fixed_document_to_all_users_joins_their_sequences_when_it_is_sent() -> None:
    trio = GroupTrio()
    trio.a.send(b"1", to="3.retailers", fixed=True, not_before=2**45)
    trio.settle()
    (row,) = trio.a.store.tables.submitted.values()
    assert row.order_key == envelope_of(row).attributes.order_key == ""
