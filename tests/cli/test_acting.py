"""Acts of a person: they are done, noted in the ledger with their reason, and refused where it is too late."""

from tests.app.network import ABSENT, Network
from tests.cli.command import semq


def test_a_message_can_be_cancelled_and_the_ledger_says_why(network: Network) -> None:
    at = ["--node", network.sender.url, "--json"]
    lk0 = semq("msg", "send", "--to", ABSENT, *at, stdin=b"x").data["lk0"]
    for why in ("ordered twice", "still not wanted"):  # the second time its marker goes out anew
        assert semq("msg", "cancel", lk0, "--why", why, *at).data["lk0"] == lk0
    events = semq("msg", "trace", lk0, *at).data["events"]
    assert [line["detail"] for line in events if line["event"] == "VOIDED"] == ["ordered twice", "still not wanted"]


def test_what_has_been_sent_cannot_be_held(network: Network) -> None:
    lk0 = semq("msg", "send", "--to", ABSENT, "--node", network.sender.url, "--json", stdin=b"x").data["lk0"]
    semq("msg", "hold", lk0, "--node", network.sender.url).fails(1, "SEMQ-1208")


def test_a_message_can_be_sent_again(network: Network) -> None:
    at = ["--node", network.sender.url, "--json"]
    lk0 = semq("msg", "send", "--to", ABSENT, *at, stdin=b"x").data["lk0"]
    assert semq("msg", "resend", lk0, "--why", "partner asked", *at).status == 0
    events = semq("msg", "trace", lk0, *at).data["events"]
    assert any("partner asked" in line["detail"] for line in events)
