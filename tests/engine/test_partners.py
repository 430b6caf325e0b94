"""The directory at a local node: its memory is bounded, and no target beyond the bounds is refused as unknown."""

import pytest

from semq.engine import partners
from semq.engine.errors import DirectoryTooLarge, TargetNotAllowed, UnknownTarget
from semq.engine.partners import Partners
from semq.umx_t.agreement import Terms
from semq.umx_t.app_key import AppKey
from semq.umx_t.records import Presence

END = Presence(node="", complete=True)


def test_a_target_missing_from_the_complete_list_is_unknown() -> None:
    directory = Partners()
    directory.check("1.a")  # no list has arrived yet, so any target is accepted
    directory.learn([Presence(node="1.a"), Presence(node="1.b", allowed=False), END])
    directory.check("1.a")
    with pytest.raises(TargetNotAllowed):
        directory.check("1.b")
    with pytest.raises(UnknownTarget):
        directory.check("1.c")
    directory.begin()
    directory.learn([Presence(node="1.c"), END])
    assert directory.allowed == directory.online | {"1.c": True} == {"1.c": True}


def test_a_node_without_a_hub_knows_the_partners_of_its_configuration_only() -> None:
    directory = Partners.configured(["1.a"])
    directory.check("1.a")
    with pytest.raises(UnknownTarget, match="no hub"):
        directory.check("1.b")
    assert directory.check_agreement("1.a", AppKey(), 10**9, 10**9) is None


def test_a_directory_without_end_is_kept_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partners, "PARTNERS_MAX", 10)
    directory = Partners()
    directory.learn([Presence(node="3.a", members=("1.1",))])  # a group does not count as a partner
    with pytest.raises(DirectoryTooLarge) as caught:
        directory.learn([Presence(node=f"1.{n}") for n in range(1000)])
    assert caught.value.facts == {"counted": "partners", "kept": 10, "most": 10}
    directory.learn([Presence(node=f"1.{n}") for n in range(1000)])  # the error is raised once in a session
    directory.learn([Presence(node="1.9", allowed=False), END])  # records about known partners are still processed
    assert len(directory.allowed) == len(directory.online) == 10
    directory.check("1.999")  # the hub decides about targets beyond the bound
    with pytest.raises(TargetNotAllowed):
        directory.check("1.9")
    directory.begin()
    directory.learn([Presence(node="1.a"), END])
    with pytest.raises(UnknownTarget):
        directory.check("1.999")


def test_agreements_without_end_are_kept_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partners, "TERMS_BYTES_MAX", 10_000)
    long = tuple(Terms(types=("x" * 200,)) for _ in range(10))
    directory = Partners()
    for _ in range(5):  # repeated records take no more memory
        directory.learn([Presence(node="1.a", terms=long), Presence(node="1.b", terms=long)])
    with pytest.raises(DirectoryTooLarge) as caught:
        directory.learn([Presence(node="1.c", terms=long)])
    assert caught.value.facts == {"counted": "bytes of agreements", "kept": directory._terms_bytes, "most": 10_000}
    assert directory.terms.keys() == {"1.a", "1.b"}
    directory.learn([Presence(node="1.b", terms=()), Presence(node="1.c", terms=long)])
    assert directory.terms["1.c"] == long


def test_groups_are_kept_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partners, "MEMBERS_MAX", 3)
    directory = Partners()
    directory.learn([Presence(node="3.a", members=("1.a", "1.b"), others=1)])
    with pytest.raises(DirectoryTooLarge) as caught:
        directory.learn([Presence(node="3.b", members=("1.a", "1.b")), END])
    assert caught.value.facts == {"counted": "members of groups", "kept": 2, "most": 3}
    assert directory.groups.keys() == {"3.a"}
    directory.learn([Presence(node="3.a", members=("1.a", "1.b", "1.c"))])  # counts once
    assert len(directory.groups["3.a"].members) == 3
    directory.learn([Presence(node="3.a", members=())])
    assert directory.groups == {}
