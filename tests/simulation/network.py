"""Sessions between nodes: latency, cuts, half-open sessions; in the mode ``hell`` also late and doubled frames.

Each direction of a session has two independent channels, for messages and for packets, each in order. Frames under way
at the end of a session are lost, except those that faults deliver late (``deliver_late``).
"""

from collections import deque
from typing import TYPE_CHECKING

from msgspec.structs import replace

from semq.umx_t.address import Address
from semq.umx_t.envelope import Data, Frame
from semq.umx_t.headers import packet_type, read_envelope, read_type, write_envelope, write_packed
from semq.umx_t.records import decode_records, encode_records

if TYPE_CHECKING:
    from tests.simulation.host import Host, LocalHost
    from tests.simulation.world import World


class FrameLane:
    """Frames of one kind, in one direction, in order. ``last``: arrival of the last of them."""

    __slots__ = ("frames", "last")

    def __init__(self, start: float) -> None:
        self.frames: deque[tuple[float, Frame]] = deque()
        self.last = start


class SimLink:
    """One end of a session, as the engine of its owner sees it."""

    def __init__(self, session: "SimSession", owner: "Host", other: "Host") -> None:
        self.session = session
        self.owner = owner
        self.other = other
        self.peer: Address = other.address
        self.life = owner.life
        self.up = False  #: whether the owner's engine considers the session open
        self.stalled = False  #: frames leave and never arrive
        self.data = FrameLane(session.world.time.now)
        self.control = FrameLane(session.world.time.now)
        self.was_full = False  #: the engine has found no room, and is notified when there is room again

    @property
    def room(self) -> int:
        room = self.session.world.plan.link_room - len(self.data.frames)
        self.was_full = self.was_full or room <= 0
        return max(room, 0)

    @property
    def far(self) -> "SimLink":
        return self.session.dialler_end if self is self.session.listener_end else self.session.listener_end

    def send(self, frame: Frame) -> None:
        world = self.session.world
        world.oracle.sent(self.owner, frame)
        if self.session.is_cut or not self.up or self.life != self.owner.life:
            world.trace("lost at once", self.owner.name, frame)
            return
        world.trace("sends", self.owner.name, frame)
        if isinstance(frame, Data) and frame.bare:
            frame = replace(frame, bare=0)  # known to its sender only
        self.session.carry(self, frame)


class SimSession:
    """One connection of a local node with ``listener``: a process of the hub, or another local node."""

    def __init__(self, world: "World", dialler: "LocalHost", listener: "Host") -> None:
        self.world = world
        self.dialler = dialler
        self.listener = listener
        self.is_cut = False
        self.certificate = ""  #: of the dialler
        self.listener_end = SimLink(self, listener, dialler)
        self.dialler_end = SimLink(self, dialler, listener)

    # --- beginning and end
    def begin(self) -> None:
        """Open the session at ``listener``, and a little later at ``dialler``."""
        both_run = self.listener.is_up(self.listener_end.life) and self.dialler.is_up(self.dialler_end.life)
        if self.is_cut or not both_run:
            self.cut(0.0, 0.0)
            return
        self.listener_end.up = True
        when = self.world.time.now + self.world.latency_s()
        self.listener_end.data.last = self.listener_end.control.last = when
        self.world.time.at(when, self._begin_dialler)
        self.listener.link_up(self.listener_end)

    def _begin_dialler(self) -> None:
        if not self.is_cut and self.dialler.is_up(self.dialler_end.life):
            self.dialler_end.up = True
            self.dialler.link_up(self.dialler_end)

    def cut(self, dialler_delay: float, listener_delay: float) -> None:
        """Lose the frames under way; each end is notified after its own delay in seconds."""
        if not self.is_cut:
            self.is_cut = True
            self.world.unaware_of_cut += 2
            self.world.time.after(dialler_delay, self._end, self.dialler_end)
            self.world.time.after(listener_delay, self._end, self.listener_end)

    def _end(self, link: SimLink) -> None:
        self.world.unaware_of_cut -= 1
        was_up, link.up = link.up, False
        if link.owner.is_up(link.life):
            link.owner.link_down(link, was_up)

    # --- carrying
    def carry(self, link: SimLink, frame: Frame) -> None:
        world = self.world
        if world.plan.codec:
            frame = through_the_codec(frame)
        world.faults.draw_replay(link, frame)
        arrives, ghosts = world.faults.draw_arrivals(frame)
        if arrives and not link.stalled and not world.faults.withholds(link, frame):
            channel = link.data if isinstance(frame, Data) else link.control
            channel.last = max(channel.last, world.time.now + world.latency_s())
            channel.frames.append((channel.last, frame))
            world.in_transit += 1
            world.time.at(channel.last, self._arrive, link, channel)
        for delay in ghosts:
            world.in_transit += 1
            world.time.after(delay, self.deliver_late, link.owner, link.other, frame)

    def _arrive(self, link: SimLink, channel: FrameLane) -> None:
        frames: list[Frame] = []
        while channel.frames and channel.frames[0][0] <= self.world.time.now:
            frames.append(channel.frames.popleft()[1])
        self.world.in_transit -= len(frames)
        far = link.far
        if frames and not self.is_cut and far.up and far.owner.is_up(far.life):
            self.world.trace_all("gets", far.owner.name, frames)
            self.world.oracle.received(far.owner, frames)
            far.owner.receive(far, frames)
            hints = self.world.faults.draw_hints(far, frames) if far.owner.is_up(far.life) else []
            if hints:
                self.world.trace_all("rumour", far.owner.name, hints)
                far.owner.receive(far, hints)
                far.owner.note_room(far)
        if link.was_full and link.up and link.owner.is_up(link.life) and channel is link.data:
            link.was_full = False
            link.owner.note_room(link)

    def deliver_late(self, sender: "Host", receiver: "Host", frame: Frame) -> None:
        """Deliver a frame late or again, in the present session of the two nodes; drop it if they have none."""
        self.world.in_transit -= 1
        link = self.world.link_between(receiver, sender)
        if link is not None:
            self.world.trace("gets late", link.owner.name, frame)
            self.world.oracle.received(link.owner, [frame])
            link.owner.receive(link, [frame])


def through_the_codec(frame: Frame) -> Frame:
    """Return a frame as the peer decodes it; messages with odd numbers travel in the packed form."""
    if isinstance(frame, Data):
        write = write_packed if frame.envelope.lk0.object_id % 2 else write_envelope
        properties, headers = write(frame.envelope)
        assert read_type(properties["type"])
        return replace(frame, envelope=read_envelope(properties, headers, str(frame.envelope.target)))
    function, primitive = read_type(packet_type(frame.function, frame.primitive))
    records = decode_records(function, primitive, encode_records(frame.records))
    return replace(frame, records=records)
