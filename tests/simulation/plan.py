"""The plan of a run, drawn from its seed: number of nodes, settings of the engines, kinds of faults, documents.

``hell`` has most fault kinds, and a network that loses, doubles, delays and reorders across sessions; other plans have
a random subset, or the kinds of a theme. Windows and batches are small, because races happen at the limits.
"""

from dataclasses import dataclass, replace
from random import Random

import msgspec

from semq.engine.settings import EngineSettings
from semq.store.work import LATER_S
from semq.umx_t.app_key import AppKey
from semq.umx_t.envelope import Attributes
from semq.umx_t.grids import SenderEvent, SenderState
from semq.umx_t.status import SaveFwd
from tests.simulation.application import POISON, REFUSED, REFUSED_AT_TIMES, PlannedDocument
from tests.simulation.disturbances.drills import GOALS, TRUTHS, Goal
from tests.simulation.disturbances.faults import ALL_KINDS, CHANGES_OF_KEYS, DISASTERS, HELL_ONLY, KINDS, OF_THE_HUB
from tests.simulation.documents.groups import group_of
from tests.simulation.timeline import EPOCH

HELL_SHARE = 0.25  # of the seeds without a theme
NAMES = ("a", "b", "c", "d")


@dataclass(slots=True, frozen=True)
class Theme:
    """A subject that random plans would have too rarely."""

    kinds: str = ""  #: kinds of faults, separated by spaces
    #: values of @SaveFwd, @Ack2 and @OrderKey, drawn for each document
    classes: tuple[int, ...] = (3,)
    acks: tuple[bool, ...] = (True, False)
    orders: tuple[str, ...] = ("",)
    flight: int = 512  #: ``EngineSettings.flight``
    acts: float = 0.3  #: probability of each act of a person
    poison: float = 0.25  #: probability that a receiver cannot open a document


THEME_SHARE = 0.3  # of the seeds that are no drills
# Features of seeds without a focus: their shares. Each is drawn alone, so that every two of them meet.
FEATURES: dict[str, float] = {
    "signed": 0.5,  # institutions believe signed floors only
    "instances": 0.125,  # the hub has several instances
    "direct": 0.1,  # nodes also have direct sessions
    "no_hub": 0.05,  # nodes have no hub, only direct sessions
    "groups": 0.25,  # some documents are for a group, or for all users of an institution
    "schedule": 0.1,  # some documents are scheduled (@NotBefore)
    "pieces": 0.1,  # some documents are in pieces
    "renew": 0.1,  # institutions have certificates, and begin to use new keys
    "revoke": 0.2,  # institutions have certificates, which the hub revokes
    "enrol": 0.05,  # institutions have certificates, lose their keys and enrol anew
}
ALSO_IN_DRILLS = frozenset({"signed"})  # the others would lead away from the cell at which a drill aims
DRILL_EVERY = 5  # the goals take turns
DRILL_3 = Theme("restore_local restore_hub hold offline other_store operator rumours refusal poison cancel", acts=0.5)
# For the events in TRUTHS. Frames are lost, and their sender is not informed.
DRILL_TRUE = replace(DRILL_3, kinds=DRILL_3.kinds + " loss stall")
PARKED_AFTER = 4  # sends of a copy whose signature its receiver does not accept
AHEAD_BYTES = 64  # from this size on a payload is stored ahead of its row
# For ``not_here_bare``: the senders have deleted the payloads at custody, and no custody is lost.
DRILL_BARE = Theme("offline hold half_open rumours", acks=(False,))
DRILL_12 = Theme("restore_local hold offline poison operator rumours refusal cancel", (2, 2, 1), (True,), flight=1)
DRILL_BACK = Theme("restore_local hold offline poison rumours", (2,), (True,), flight=1, acts=0.9)
THEMES = (
    # rows that a restored backup brings back
    Theme("restore_local hold offline poison rumours", (2,), (True,), flight=1, acts=0.7),
    Theme("restore_local restore_hub hold offline cut replay rumours poison", (3,), flight=1, acts=0.7),
    Theme("restore_local other_store offline operator rumours", (3,), (True, True, False)),
    # a new message under an old number
    Theme("wipe_hub restore_hub offline cut crash_hub think rumours cancel"),
    # markers for copies under way
    Theme("offline half_open cancel operator stall", orders=("", "k"), acts=0.7),
    # custodians out of reach
    Theme("other_store offline operator cancel poison rumours", (3, 3, 2), (True,), acts=0.6),
    # applications of all kinds
    Theme("nack stutter think absent poison crash_local", (3, 2), orders=("", "k")),
    # classes 1 and 2
    Theme("offline operator cancel refusal rumours slow_disk", (1, 2), (True,), acts=0.5),
    # a store of the hub that never comes back
    Theme(
        "lose_store other_store offline cut stall half_open poison", (3, 3, 2), (True, False, False), orders=("", "k")
    ),
    # messages that were given up return with a restored backup of the hub
    Theme("act_on_copies restore_hub offline cut", (3, 3, 2), (True, True, False), orders=("", "k"), acts=0.0),
    # the hub's operator and the sender act on the same messages
    Theme("act_on_copies strike_off offline operator cancel stall loss rumours", (3, 3, 2), (True, False), acts=0.7),
)


@dataclass(slots=True)
class Plan:
    """The decisions of one seed."""

    seed: int
    hell: bool
    kinds: frozenset[str]
    focus: frozenset[str]  #: kinds that happen more often
    goal: Goal | None  #: the aim of false hints in a drill
    locals: int  #: number of local nodes
    hub_stores: int  #: number of stores of the hub
    faulty_s: float  #: time until the faults stop
    settings: EngineSettings
    link_room: int  #: messages that a session takes at a time
    codec: bool  #: frames are encoded and decoded
    flush_s: float  #: longest time until the records of a turn are sent
    redial_s: float  #: longest pause before a node dials again
    latency_s: float  #: mean travel time of a frame
    disk_s: float  #: usual duration of a phase of a transaction
    later_s: float  #: delay of work without a waiting caller
    crash_at_step: float  #: probability of a crash at each step
    documents: list[tuple[float, str, list[PlannedDocument]]]  #: time, institution, documents

    @property
    def instances(self) -> int:
        """The number of instances of the hub; 0: one process at a time."""
        return 2 + self.seed % 2 if "instances" in self.kinds else 0

    @property
    def holds_mail(self) -> bool:
        """Whether records that may wait for others wait ``later_s``."""
        return self.seed // 2 % 2 == 1

    @property
    def has_hub(self) -> bool:
        return "no_hub" not in self.kinds


def draw(seed: int, hell: bool | None = None, focus: frozenset[str] = frozenset(), goal: Goal | None = None) -> Plan:
    """Return the plan of a seed. Raises ValueError if a kind of ``focus`` does not exist.

    ``hell``: None: drawn. ``focus``: more kinds of faults; the plan then has no theme and no goal. ``goal``: the cell
    at which a drill aims; None: the goal of the seed, if the seed is a drill.
    """
    if unknown := focus - ALL_KINDS:
        raise ValueError(f"There are no such kinds of faults: {', '.join(sorted(unknown))}")
    chance, has_focus = Random(seed), bool(focus)
    theme, goal = _theme(chance, seed, goal) if not focus else (None, None)
    own = goal is not None or chance.random() < (0.6 if theme else HELL_SHARE)
    hell = own if hell is None else hell
    kinds = _kinds(chance, hell) | focus
    if theme:
        focus = frozenset(theme.kinds.split())
        kinds = (kinds if hell and not goal else frozenset()) | (focus if hell else focus - set(HELL_ONLY))
    if not has_focus:
        kinds |= _features(seed) & (ALSO_IN_DRILLS if goal is not None else FEATURES.keys())
    if not has_focus and "revoke" in kinds:  # copies that wait have revoked keys
        kinds, focus = kinds | {"offline"}, focus | {"offline", "revoke"}
    if "no_hub" in kinds:
        kinds = kinds - set(OF_THE_HUB) - {"groups", "instances"} | {"direct"}
    locals_ = chance.choice((2, 2, 2, 3, 3, 4))
    faulty_s = chance.uniform(30.0, 150.0)
    return Plan(
        seed=seed,
        hell=hell,
        kinds=kinds,
        focus=focus,
        goal=goal if hell else None,
        locals=locals_,
        hub_stores=1 if kinds.isdisjoint(("other_store", "lose_store")) else 2,
        faulty_s=faulty_s,
        settings=_settings(chance, theme, kinds),
        link_room=chance.choice((1, 3, 16, 64)),
        codec=chance.random() < 0.2,
        flush_s=chance.choice((0.0, 0.01, 0.05)),
        redial_s=chance.choice((0.5, 3.0, 10.0)),
        latency_s=chance.choice((0.02, 0.2, 1.0, 2.0) if theme else (0.002, 0.02, 0.2, 1.0)),
        disk_s=chance.choice((0.0005, 0.005, 0.05)),
        later_s=chance.choice((LATER_S, LATER_S, 0.5)),
        crash_at_step=chance.choice((0.0005, 0.002, 0.006)),
        documents=_documents(chance, kinds, NAMES[:locals_], faulty_s, theme, focus - {"revoke", "offline"}),
    )


def _theme(chance: Random, seed: int, goal: Goal | None) -> tuple[Theme | None, Goal | None]:
    """Draw the theme of a seed, or theme and goal of a drill; most seeds have none."""
    drawn = chance.random()
    if goal is None and seed % DRILL_EVERY == 0:
        goal = GOALS[seed // DRILL_EVERY % len(GOALS)]
    if goal is None:
        return (chance.choice(THEMES) if drawn < THEME_SHARE else None), None
    grid, standing, news = goal
    if news is SenderEvent.not_here_bare and standing is not SenderState.FINAL:
        theme = DRILL_BARE
    elif grid == "class3":
        theme = DRILL_TRUE if news in TRUTHS else DRILL_3
    else:
        theme = DRILL_BACK if standing is SenderState.SS_INIT else DRILL_12
    return replace(theme, poison=0.8) if news is SenderEvent.rej else theme, goal


def _features(seed: int) -> frozenset[str]:
    """Draw features by generators of their own, so that seeds keep their other decisions."""
    return frozenset(name for name, share in FEATURES.items() if Random(f"{seed}/{name}").random() < share)


def _kinds(chance: Random, hell: bool) -> frozenset[str]:
    if hell:
        disasters = DISASTERS if chance.random() < 0.4 else ()
        rough = {kind for kind in HELL_ONLY if chance.random() < 0.8}
        return frozenset(set(KINDS) - set(DISASTERS) - set(HELL_ONLY) | set(disasters) | rough)
    share = chance.choice((0.1, 0.3, 0.6))
    return frozenset(
        kind
        for kind in sorted(set(KINDS) - set(HELL_ONLY))
        if chance.random() < (share * 0.5 if kind in DISASTERS else share)
    )


def _settings(chance: Random, theme: Theme | None, kinds: frozenset[str]) -> EngineSettings:
    window = chance.choice((3, 8, 65_536))
    settings = EngineSettings(
        inquiry_s=5.0 if theme else chance.choice((5.0, 15.0)),
        inquiry_s_max=chance.choice((30.0, 300.0)),
        inquiry_custody_s_max=chance.choice((60.0, 3600.0)),
        reconnect_spread_s=chance.choice((0.1, 5.0)),
        custody_silence_s=5.0 if theme else chance.choice((5.0, 20.0, 60.0)),
        window=window,
        flight=theme.flight if theme else chance.choice((1, 2, 512)),
        credit_messages=chance.choice((1, 3, 1024)),
        claim_rows=chance.choice((1, 2, 256)),
        ask_rows=chance.choice((1, 3, 1000)),
        packet_records=chance.choice((1, 2, 500)),
        clean_rows=chance.choice((1, 2000)),
        cleanup_s=chance.choice((0.5, 5.0)),
        expiry_s=chance.choice((15.0, 60.0)),
        deliveries_max=1000,
        hub_attempts_max=1_000_000 if kinds.isdisjoint(CHANGES_OF_KEYS) else PARKED_AFTER,
        keep_rejected=False,
        keep_parked=False,
        ahead_bytes=AHEAD_BYTES,
    )
    # Ack-Fwd is sent at once, or later than most Ack2.
    return msgspec.structs.replace(settings, forward_note_s=settings.cleanup_s * 2 - 1)


def _bulk(token: str) -> bytes:
    """Return bytes that make a document large, for a third of the tokens; else none."""
    return bytes(AHEAD_BYTES) if sum(token.encode()) % 3 == 0 else b""


def _documents(
    chance: Random,
    kinds: frozenset[str],
    names: tuple[str, ...],
    faulty_s: float,
    theme: Theme | None,
    focus: frozenset[str],
) -> list[tuple[float, str, list[PlannedDocument]]]:
    remaining, planned = chance.randint(3, 14), []
    mix = theme or Theme(
        classes=chance.choice(((3,), (3,), (3,), (3, 3, 3, 2, 1), (3, 3, 1, 2), (1, 2))),
        orders=chance.choice((("",), ("", "k"), ("k",), ("k", "l"))),
        acks=chance.choice(((True,), (True, True, False), (False,))),
        acts=0.7 if focus else 0.3,
    )
    bursts = "burst" in kinds and chance.random() < (0.9 if "burst" in focus else 0.2)
    mix = replace(mix, classes=(3,), orders=("k",)) if bursts else mix
    early = chance.random() < 0.5
    while remaining > 0:
        together = min(remaining, chance.choice((2, 4, 8) if bursts else (1, 1, 1, 2, 4)))
        remaining -= together
        source = chance.choice(names)
        near = (source, chance.choice([name for name in names if name != source])) if bursts else names
        documents = [_document(chance, kinds, f"t{remaining + n}", source, near, mix) for n in range(together)]
        planned.append((chance.uniform(0.0, faulty_s * (0.2 if early else 0.9)), source, documents))
    return planned


def _document(
    chance: Random, kinds: frozenset[str], token: str, source: str, names: tuple[str, ...], mix: Theme
) -> PlannedDocument:
    def wants(kind: str, how_often: float) -> bool:
        return kind in kinds and chance.random() < how_often

    target = source if wants("loop", 0.1) else chance.choice([name for name in names if name != source])
    save_fwd = SaveFwd(chance.choice(mix.classes))
    order_key = chance.choice(mix.orders) if save_fwd is SaveFwd.MUST else ""
    is_fixed = bool(order_key) and sum(token.encode()) % 4 == 1
    document = PlannedDocument(
        token=token,
        target=target,
        attributes=Attributes(
            save_fwd=save_fwd,
            ack2=chance.choice(mix.acks),
            app_key=AppKey("simulated", "", "", token),
            order_key="" if is_fixed else order_key,
            fixed=is_fixed,
            priority=(0, 0, 9, 0, 4)[sum(token.encode()) % 5],
            content_type=chance.choice((REFUSED, REFUSED_AT_TIMES)) if wants("refusal", 0.15) else "",
            expires_at=int((EPOCH.timestamp() + chance.uniform(5.0, 200.0)) * 1000) if wants("expiry", 0.3) else 0,
        ),
        payload=(POISON if wants("poison", mix.poison) else b"p") + token.encode() + _bulk(token),
        cancel_after_s=chance.choice((0.0, 0.1, 1.0, 20.0, 60.0)) if wants("cancel", mix.acts) else None,
        resend_after_s=chance.choice((0.0, 0.3, 10.0, 50.0)) if wants("operator", mix.acts) else None,
        hold_s=chance.uniform(0.5, 60.0) if wants("hold", mix.acts) else None,
    )
    # Chosen by the token, so that seeds without these kinds keep their documents.
    chosen = document.attributes
    if "groups" in kinds and target != source and chosen.save_fwd is SaveFwd.MUST:
        document = replace(document, target=group_of(token, target))
    leaves_a_row = chosen.save_fwd is SaveFwd.MUST or chosen.ack2
    is_later = "schedule" in kinds and sum(token.encode()) % 2 == 1 and leaves_a_row and not chosen.expires_at
    return replace(document, scheduled_s=(0.5, 3.0, 12.0, 45.0)[sum(token.encode()) % 4]) if is_later else document
