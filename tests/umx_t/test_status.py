"""Status numbers: disjoint between enums, and fixed, because stored rows contain them."""

from itertools import combinations

from semq.umx_t import status
from semq.umx_t.status import AckStatus, AppStatus, Arrival, Direction, Outcome, SaveFwd, SendStatus

ENUMS = (SendStatus, Outcome, AckStatus, AppStatus, Arrival, SaveFwd, Direction)
PINNED = {
    "SendStatus": {"SS_INIT": 10, "SS_SENT": 20, "SS_ACK_FWD": 30, "SS_ACK": 40, "SS_ACK2": 50},
    "Outcome": {"DELIVERED": 110, "REJECTED": 120, "CANCELLED": 130, "LOST": 140, "UNKNOWN": 150, "DROPPED": 160},
    "AckStatus": {"AS_INIT": 210, "AS_ACK": 220},
    "AppStatus": {"NEW": 310, "DONE": 320, "PARKED": 330},
    "Arrival": {"NOT": 400, "RECV": 410, "REJ": 420, "VOID": 430, "SETTLED": 440},
    "SaveFwd": {"DROP": 1, "STORE": 2, "MUST": 3},
    "Direction": {"OWN": 510, "RELAYED": 520},
}


def test_the_numbers_of_statuses_are_the_published_ones() -> None:
    assert {enum.__name__: {member.name: int(member) for member in enum} for enum in ENUMS} == PINNED
    assert {name for name in dir(status) if name[0].isupper()} - {"Status"} == set(PINNED)


def test_no_two_enums_share_a_number() -> None:
    for first, second in combinations(ENUMS, 2):
        assert not {int(status) for status in first} & {int(status) for status in second}


def test_send_statuses_are_numbered_in_their_order() -> None:
    assert list(SendStatus) == sorted(SendStatus)
