"""``semq user``: persons, and what they may do at the command line."""

from tests.app.network import ABSENT, Network
from tests.cli.command import semq


def test_a_person_acts_at_the_command_line_under_the_own_name_and_with_the_own_roles(network: Network) -> None:
    at = ["--node", network.sender.url, "--json"]
    added = semq("user", "add", "olga", "--role", "operator", *at).data
    assert (added["roles"], added["made_by"], len(added["password"]) > 20) == (["operator"], "app", True)
    lk0 = semq("msg", "send", "--to", ABSENT, *at, stdin=b"x").data["lk0"]
    semq("msg", "cancel", lk0, "--why", "ordered twice", *at, SEMQ_PERSON="olga")
    semq("audit", "list", *at, SEMQ_PERSON="olga").fails(1, "SEMQ-2105", "admin")
    semq("msg", "body", lk0, *at, SEMQ_PERSON="olga").fails(1, "SEMQ-2105", "payload")
    semq("user", "disable", "olga", *at, SEMQ_PERSON="olga").fails(1, "SEMQ-2105")
    events = semq("msg", "trace", lk0, "--here", *at).data["events"]
    assert [line["detail"] for line in events if line["event"] == "VOIDED"] == ["ordered twice (by olga)"]
    assert semq("audit", "list", "--act", "msg.cancel", *at).data[0]["who"] == "olga"
    assert semq("user", "disable", "olga", *at).data["disabled_at"]
    semq("stuck", "list", *at, SEMQ_PERSON="olga").fails(1, "SEMQ-2105", "disabled")


def test_administrators_change_persons(network: Network) -> None:
    at = ["--node", network.sender.url]
    first = semq("user", "add", "piet", "--role", "admin", *at)
    assert "piet: admin" in first.err
    semq("user", "add", "piet", "--role", "viewer", *at).fails(1, "SEMQ-2102", "There is a user of this name")
    assert semq("user", "password", "piet", *at).out != first.out
    by_piet = semq("user", "roles", "piet", "--role", "viewer", *at, SEMQ_PERSON="piet")
    by_piet.fails(1, "SEMQ-2102", "your own rights")
    semq("user", "roles", "piet", "--role", "viewer", "--role", "payload", *at)
    semq("user", "disable", "piet", *at)
    assert "viewer payload" in semq("user", "list", *at).out
    semq("user", "enable", "piet", *at)
    semq("user", "enable", "nobody", *at).fails(1, "SEMQ-2102", "There is no such user")
