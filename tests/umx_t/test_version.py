"""The choice of a version: the highest common one, or a typed error."""

import pytest

from semq.umx_t.version import HIGHEST, LOWEST, NoCommonVersion, agree, offer


def test_a_node_offers_its_versions_and_two_equal_nodes_use_the_highest() -> None:
    assert offer() == [LOWEST, HIGHEST]
    assert agree(offer()) == HIGHEST


@pytest.mark.parametrize(
    ("theirs", "version"),
    [
        (None, 1),
        ("1-2", 1),
        ([LOWEST, HIGHEST + 5], HIGHEST),
        ([True, False], 1),
    ],
)
def test_the_highest_common_version_is_used(theirs: object, version: int) -> None:
    assert agree(theirs) == version


@pytest.mark.parametrize("theirs", [[HIGHEST + 1, HIGHEST + 2], [LOWEST - 1, LOWEST - 1], [1, 0]])
def test_the_error_without_a_common_version_names_both_offers(theirs: list[int]) -> None:
    with pytest.raises(NoCommonVersion, match=r"ours=.*theirs="):
        agree(theirs)
