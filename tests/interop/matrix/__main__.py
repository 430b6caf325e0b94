"""``python -m tests.interop.matrix``: install the clients, send and receive all values, write the page."""

import sys

from tests.interop.institutions import Institutions, between_institutions
from tests.interop.matrix import page
from tests.interop.matrix.doors import DOORS, SENDING_DOORS, places_at, received_by_door, sent_by_door
from tests.interop.matrix.installation import Program, installed
from tests.interop.matrix.programs import (
    QUEUE,
    NodesAndSites,
    properties_shown_by,
    received_by,
    sent_by,
)
from tests.interop.matrix.values import PROPERTIES, SENT
from tests.web.running import serving

SENDS_ONLY = ("amqp-tools",)  # its programs do not show headers
ALL = (*SENT, *PROPERTIES)


async def compare(institutions: Institutions, programs: list[Program]) -> page.Seen:
    """Send and receive all values."""
    started, a, b, folder = institutions
    at_a, at_b = [await (await started.client(node)).open_channel() for node in (a, b)]
    for channel in (at_a, at_b):
        await channel.confirm_select()
        await channel.declare_queue(QUEUE)
    seen = page.Seen({}, {}, {}, {})
    async with serving(a) as site_a, serving(b) as site_b:
        nodes = NodesAndSites(a, b, site_a, site_b, at_a, at_b)
        for program in programs:
            print(program.name, file=sys.stderr)
            seen.sent[program.name] = await sent_by(nodes, program, ALL)
            if not program.name.startswith(SENDS_ONLY):
                seen.received[program.name] = await received_by(nodes, program)
                seen.properties[program.name] = await properties_shown_by(nodes, program)
        for door in DOORS:
            print(door, file=sys.stderr)
            if door in SENDING_DOORS:
                seen.sent[door] = await sent_by_door(nodes, door, ALL)
            seen.received[door] = await received_by_door(nodes, door, folder / f"values {door}")
            seen.places[door] = await places_at(nodes, door, folder / f"properties {door}")
    return seen


def main() -> None:
    with installed() as programs:
        page.write(page.tables(between_institutions(lambda institutions: compare(institutions, programs))))


if __name__ == "__main__":
    main()
