"""Definitions of a hub."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_node.definitions import Agreement, HubDefinitions, Institution, changes, first_text, read_definitions
from platform_node.errors import DefinitionsRefused
from platform_node.pairs import PartnerIndex
from semq.umx_t.address import Address
from semq.umx_t.agreement import Terms

DEFINITIONS = """
[nodes."77001"]
name = "Nord"

[[agreements]]
from = ["10008"]
to = ["56001", "77001"]
types = ["order", "trade/invoice"]
bytes_max = 1_000_000
per_minute = 600
waiting_max = 10_000
encrypt = true

[[agreements]]
from = ["*"]
to = ["10008"]
"""
KNOWN = ["10008", "56001"]


A, B, C = (Address(1, name) for name in ("10008", "56001", "77001"))


def test_a_pair_has_the_terms_of_the_agreements_between_both() -> None:
    index = PartnerIndex({}, read_definitions(DEFINITIONS, KNOWN))
    strict = Terms(
        types=("order", "trade/invoice"), bytes_max=1_000_000, per_minute=600, waiting_max=10_000, encrypt=True
    )
    assert index.terms(A, B) == index.terms(A, C) == (strict,)
    assert index.terms(B, A) == (Terms(),)
    assert index.terms(B, C) == ()
    assert PartnerIndex({}, HubDefinitions()).terms(A, B) is None


@pytest.mark.parametrize(
    "wrong",
    [
        "agreements = 5",
        "[[agreement]]\n",
        "[[agreements]]\nfrom = ['10008']\n",
        "[[agreements]]\nfrom = []\nto = ['10008']\n",
        "[[agreements]]\nfrom = ['10008']\nto = ['56001']\ntypes = []\n",
        "[[agreements]]\nfrom = ['10008']\nto = ['99999']\n",
        "[[agreements]]\nfrom = '10008'\nto = ['56001']\n",
        "[[agreements]]\nfrom = ['10008']\nto = ['56001']\nencypt = true\n",
        "[[agreements]]\nfrom = ['10008']\nto = ['56001']\nbytes_max = -1\n",
        "[[agreements]]\nfrom = ['10008']\nto = ['56001']\nper_minute = 1.5\n",
        "[nodes.'no spaces']\n",
        "[nodes.'77001']\npassword = 'x'\n",
        "[nodes.'77001']\nusers = ['no spaces']\n",
        "[nodes.'77001']\nusers = ['desk', 'desk']\n",
        "[nodes.'77001']\nusers = ['_pieces']\n",
        f"[nodes.'77001']\nusers = {[str(n) for n in range(1001)]}\n",
        "\n".join(f"[nodes.n{n}]\nusers = {[str(u) for u in range(1000)]}\n" for n in range(11)),
        "not toml",
        "x" * (4 * 1024 * 1024 + 1),
        "a = " + "[" * 100_000,
    ],
)
def test_wrong_definitions_are_refused(wrong: str) -> None:
    with pytest.raises(DefinitionsRefused):
        read_definitions(wrong, KNOWN)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        assert isinstance(read_definitions(text, KNOWN), HubDefinitions)
    except DefinitionsRefused:
        pass


def test_changes_are_listed_before_an_import() -> None:
    empty, definitions = HubDefinitions(), read_definitions(DEFINITIONS, KNOWN)
    assert changes(definitions, definitions) == []
    assert changes(empty, definitions) == [
        "+ node 77001",
        "+ 10008 -> 56001,77001: order,trade/invoice bytes_max=1000000 per_minute=600 waiting_max=10000 encrypt",
        "+ * -> 10008: *",
        "! from now on only documents with an agreement are allowed",
    ]
    assert changes(definitions, empty)[-1] == "! from now on may_send_to of the configuration decides"
    assert changes(definitions, read_definitions(DEFINITIONS.replace("Nord", "Süd"), KNOWN)) == [
        "~ node 77001: 'Nord' -> 'Süd'"
    ]
    both = [*KNOWN, "77001"]  # also in the configuration, so that it stays
    assert changes(empty, definitions, both)[0] == "~ node 77001: defined, and in the configuration"
    assert changes(definitions, empty)[0] == "- node 77001"
    left = changes(definitions, empty, both)[0]
    assert left == "~ node 77001: no longer defined; it stays, by the configuration"
    staffed = read_definitions(DEFINITIONS.replace('name = "Nord"', 'name = "Nord"\nusers = ["desk", "sales"]'), KNOWN)
    assert changes(definitions, staffed) == ["~ users of 77001: desk, sales"]
    assert changes(staffed, definitions) == ["~ users of 77001: none"]
    turned = HubDefinitions(definitions.nodes, definitions.agreements[::-1])
    reordered = "~ agreements in another order: the first one that fits a document applies"
    assert changes(definitions, turned) == [reordered]
    added = Agreement(from_=("56001",), to=("10008",), types=("order",))
    of_another_name = {"77001": Institution("Süd", definitions.nodes["77001"].users)}
    assert changes(definitions, HubDefinitions(of_another_name, (added, *turned.agreements))) == [
        "~ node 77001: 'Nord' -> 'Süd'", "+ 56001 -> 10008: order", reordered,
    ]  # fmt: skip
    assert reordered not in changes(definitions, HubDefinitions(definitions.nodes, (added, *definitions.agreements)))


def test_definitions_in_force_stay_when_an_institution_leaves() -> None:
    gone = DEFINITIONS.replace('"56001"', '"99999"')
    with pytest.raises(DefinitionsRefused):
        read_definitions(gone, KNOWN)
    assert PartnerIndex({}, read_definitions(gone)).terms(A, C) != ()


def test_definitions_before_the_first_import_are_empty() -> None:
    assert read_definitions(first_text(KNOWN)) == HubDefinitions()


def test_a_fault_names_the_institution_or_the_agreement_that_has_it() -> None:
    text = '[nodes."10008"]\nname = "A"\n[nodes."10009"]\npassword = "secret"\n'
    with pytest.raises(DefinitionsRefused) as caught:
        read_definitions(text)
    assert 'nodes."10009"' in str(caught.value.facts["fault"])
    assert "password" in str(caught.value.facts["fault"])
    with pytest.raises(DefinitionsRefused) as caught:
        read_definitions('[[agreements]]\nfrom = ["1"]\nto = ["2"]\n[[agreements]]\nfrom = ["1"]\nto = 5\n')
    assert "agreements[1]" in str(caught.value.facts["fault"])


GROUPS = '[groups.retailers]\nmembers = ["10008", "56001", "77001"]\n[nodes.77001]\n'


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        (GROUPS.replace('77001"]', '77009"]'), "'77009', which is not an institution"),
        (GROUPS.replace('77001"]', '*"]'), "'\\*', which is not an institution"),
        (GROUPS.replace('77001"]', '10008"]'), "names a member twice"),
        ("[groups.retailers]\nmembers = []\n", "1 to 1000 members"),
        (f"[groups.retailers]\nmembers = {[str(n) for n in range(1001)]}\n", "1 to 1000 members"),
        ("[groups.'a b']\nmembers = ['10008']\n", "not a valid name of a group"),
        ("".join(f"[groups.g{n}]\nmembers = ['10008']\n" for n in range(201)), "More than 200 groups"),
        ("[groups.retailers]\nmember = ['10008']\n", "member"),
    ],
)
def test_wrong_groups_are_refused(wrong: str, fault: str) -> None:
    with pytest.raises(DefinitionsRefused, match=fault):
        read_definitions(wrong, KNOWN)


def test_a_node_gets_the_groups_to_which_it_may_send_without_the_names_of_others() -> None:
    agreed = '[[agreements]]\nfrom = ["10008"]\nto = ["56001"]\n'
    definitions = read_definitions(GROUPS + "[nodes.10008]\n[nodes.56001]\n" + agreed, KNOWN)
    index = PartnerIndex({}, definitions)
    (record,) = index.groups(A)
    assert (record.node, record.members, record.others) == ("3.retailers", ("1.56001",), 1)
    assert not record.allowed
    assert index.groups(B) == []
    assert "+ group retailers: 10008, 56001, 77001" in changes(HubDefinitions(), definitions)
    assert "- group retailers" in changes(definitions, HubDefinitions())


def test_a_node_gets_the_users_of_institutions_to_which_it_may_send_and_its_own() -> None:
    users = (
        '[nodes.10008]\nusers = ["desk"]\n[nodes.56001]\nusers = ["desk", "sales"]\n[nodes.77001]\nusers = ["buyer"]\n'
    )
    index = PartnerIndex({}, read_definitions(users + '[[agreements]]\nfrom = ["10008"]\nto = ["56001"]\n', KNOWN))
    assert {record.node: record.members for record in index.groups(A)} == {
        "4.10008": ("1.10008/desk",),
        "4.56001": ("1.56001/desk", "1.56001/sales"),
    }
    assert [record.node for record in index.groups(B)] == ["4.56001"]
    assert not any(record.allowed for record in index.groups(A))
