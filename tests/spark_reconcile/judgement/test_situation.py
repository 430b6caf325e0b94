"""Packed situations are read back unchanged, and every word fits into its bits."""

from hypothesis import given
from hypothesis import strategies as st

from spark_reconcile.judgement.situation import HUBS, RECEIVERS, REMARK_SHIFT, REMARKS, SENDERS, Situation, unpack

SITUATIONS = st.builds(
    Situation,
    st.sampled_from(SENDERS),
    st.sampled_from(HUBS),
    st.sampled_from(RECEIVERS),
    st.frozensets(st.sampled_from(REMARKS)),
)


@given(SITUATIONS)
def test_a_packed_situation_is_read_back_unchanged(situation: Situation) -> None:
    assert unpack(situation.pack()) == situation


def test_words_and_remarks_fit_into_their_bits() -> None:
    assert max(len(SENDERS), len(HUBS), len(RECEIVERS)) <= 16
    assert REMARK_SHIFT + len(REMARKS) < 32


def test_words_with_a_fixed_number_come_first() -> None:
    assert (SENDERS[:3], HUBS[:3], RECEIVERS[:3]) == (
        ("none", "missing", "torn"),
        ("none", "missing", "direct"),
        ("none", "missing", "mixed"),
    )
