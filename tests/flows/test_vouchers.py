"""Another certificate of a partner leaves a line, and an alarm if no older key vouches; violations are counted."""

from semq.umx_t.address import Address
from semq.umx_t.envelope import Packet
from tests.flows.lying import SAID_BY_B, A, B, open_row
from tests.flows.sealed import World


def certified(world: World) -> list[str]:
    return [
        line.detail for line in world.a.store.tables.ledger
        if line.target == str(B) and ("certificate" in line.detail or line.detail.startswith("SEMQ-5216"))
    ]  # fmt: skip


def test_a_new_certificate_of_a_partner_leaves_a_line_and_an_alarm_unless_the_old_key_vouches(world: World) -> None:
    assert [line.split(" of ")[0] for line in certified(world)] == ["the first certificate"]
    world.roll(world.b, "B2", "B1")  # a renewal
    world.settle()
    assert certified(world)[1].startswith("another certificate, vouched for by a former key,")
    assert world.a.engine.core.misconduct.told() == []
    world.roll(world.b, "B3")  # enrolled anew, or somebody else
    world.settle()
    assert certified(world)[-1].startswith("SEMQ-5216")
    lines = len(certified(world))
    (seen,) = world.a.engine.core.misconduct.told()
    assert (seen["who"], seen["what"], seen["count"]) == (str(B), "SEMQ-5216", 1)
    world.b.engine.introduce()
    world.settle()
    assert len(certified(world)) == lines


def test_a_voucher_of_a_key_that_is_not_known_vouches_for_nothing(world: World) -> None:
    world.roll(world.b, "B2", "X")
    world.settle()
    assert certified(world)[-1].startswith("SEMQ-5216")


def test_violations_are_counted_by_speaker_and_kind_in_bounded_memory(world: World) -> None:
    row = open_row(world)
    function, primitive, record = SAID_BY_B["an Ack2"](row)
    for _ in range(300):
        world.a.hear(Packet(B, A, function, primitive, [record]))
    for n in range(300):
        world.a.hear(Packet(Address(1, f"n{n}"), A, function, primitive, [record]))
    told = world.a.engine.core.misconduct.told()
    assert (told[0]["who"], told[0]["what"], told[0]["count"]) == (str(B), "SEMQ-5209", 300)
    assert len(told) <= 101
    assert sum(int(one["count"]) for one in told) == 600
