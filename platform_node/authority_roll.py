"""The change of the hub's own authority while the network is in operation.

| phase    | signs  | the hub trusts | request to a node            | ends when every node that counts            |
|----------|--------|----------------|------------------------------|---------------------------------------------|
| believe  | former | both           | trust the new authority, too | trusts both                                 |
| renew    | new    | both           | renew its certificate        | uses no certificate of the former authority |
| withdraw | new    | new            | drop the former authority    | has dropped the former authority            |
| done     | new    | new            | as in ``withdraw``           |                                             |

A node counts if it is an institution of this hub, has a valid certificate or a session with one, and is not left behind
by the operator. Partners verify each other's certificates, so the new authority issues none before all these nodes
trust it.

Instances of one hub share the folder of keys: each asks the nodes that are connected to it, and a phase also waits for
every running instance. Each call of ``advance`` does everything that the phase requires, so a restarted hub continues.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import msgspec
import structlog
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from platform_node.authority_state import LOCK_FILE, STATE_FILE, STATE_TEXTS, STEPS, Phase, Roll, folder_of, read_roll
from platform_node.errors import NoRoll
from platform_node.ports import OperatedHub
from semq.answers import OperationAnswer
from semq.errors import SemqError
from semq.foreign_text import shortened
from semq.moments import utc_text
from semq.pki.authority import KEY_FILE, Authority, create_authority, read_authority
from semq.pki.errors import NoAuthority
from semq.pki.succession import is_issued_by, state_succession
from semq.pki.trust import fingerprint_of
from semq.service.credentials.identity import ring_of
from semq.store.files import locked, write_safely

JOB = "authority"
ADVANCE_S = 5.0
CONCURRENT_MAX = 16  # nodes asked at the same time
log = structlog.get_logger("semq.authority")


class RolledNode(OperationAnswer, frozen=True, kw_only=True):
    """The progress of one institution."""

    node: str
    state: str
    online: bool
    left_behind: bool  #: the change does not wait for it; it must enrol again
    fault: str


class RollStatus(OperationAnswer, frozen=True, kw_only=True):
    """The hub's authority and its change."""

    authority: str | None  #: fingerprint
    phase: str = "none"
    began: bool | UnsetType = UNSET  #: this act began the change
    former: str | UnsetType = UNSET  #: fingerprint
    new: str | UnsetType = UNSET
    started_at: str | UnsetType = UNSET
    waiting_for: Sequence[str] = ()
    waiting_for_stores: Sequence[str] = ()
    nodes: Sequence[RolledNode] = ()


class AuthorityRoll:
    """The change of a hub's authority."""

    def __init__(self, hub: OperatedHub) -> None:
        self._hub = hub
        self._folder = hub.settings.pki_dir
        self._passphrase = ring_of(hub.settings).passphrase
        self.state = read_roll(self._folder)
        self._faults: dict[str, str] = {}  #: by node: the failure of the last request
        self._advancing = asyncio.Lock()

    def begin(self, left_behind: Sequence[str]) -> bool:
        """Begin a change, unless one is under way; do not wait for the nodes ``left_behind``.

        Return whether a change was begun. Raises NoAuthority.
        """
        if self._hub.registry.authority is None:
            raise NoAuthority
        with self._locked_state():
            roll = self.state
            is_new = roll is None or roll.phase is Phase.DONE
            if is_new:
                roll = self._new_roll(self._hub.registry.authority, roll.generation + 1 if roll else 2)
                log.warning("authority_roll_begins", new=roll.succession.fingerprint, former=roll.succession.former)
            assert roll is not None
            self._save(roll.noted("left_behind", left_behind))
            return is_new

    def _new_roll(self, former: Authority, generation: int) -> Roll:
        folder, now = folder_of(self._folder, generation), self._hub.clock.wall()
        new = read_authority(folder, self._passphrase())  # exists if a crash interrupted an earlier call
        if new is None:
            new = create_authority(f"{self._hub.settings.node.id} {generation}", now)
            new.write(folder, self._passphrase())
        return Roll(generation, Phase.BELIEVE, state_succession(former, new), now)

    def leave_behind(self, nodes: Sequence[str]) -> None:
        """Stop waiting for these nodes. Raises NoRoll."""
        with self._locked_state():
            if self.state is None or self.state.phase is Phase.DONE:
                raise NoRoll
            self._save(self.state.noted("left_behind", nodes))
        log.warning("authority_roll_leaves", nodes=list(nodes))

    async def advance(self) -> None:
        async with self._advancing:
            self.state = read_roll(self._folder)  # another instance may have changed it
            if self.state is None or self._hub.registry.authority is None:
                return
            await self._establish(self.state)
            await self._ask_all(self.state)
            await self._begin_next_phase()

    async def _establish(self, roll: Roll) -> None:
        await self._apply(roll)
        if self._hub.store_name not in roll.established:
            self._note("established", [self._hub.store_name], roll)

    async def _apply(self, roll: Roll) -> None:
        identity, registry = self._hub.identity_in_use(), self._hub.registry
        new, former = roll.succession.fingerprint, roll.succession.former
        trusted = dict(zip(identity.trust.fingerprints, identity.trust.authorities, strict=True))
        if new not in trusted:
            identity.replace_authorities([*trusted.values(), roll.succession.new])
            self._hub.apply_authorities()
        if roll.phase is Phase.BELIEVE:
            return
        assert registry.authority is not None
        if registry.authority.fingerprint != new:
            registry.authority = read_authority(folder_of(self._folder, roll.generation), self._passphrase())
            self._hub.announce_authority()
        if not is_issued_by(identity.certificate, roll.succession.new):
            self._hub.renew_own()
        if roll.phase is Phase.RENEW:
            return
        if former in trusted:
            identity.replace_authorities([authority for name, authority in trusted.items() if name != former])
            await self._hub.apply_authorities_and_end_sessions()
            log.warning("authority_withdrawn", former=former)
        if roll.phase is Phase.DONE:
            (folder_of(self._folder, roll.generation - 1) / KEY_FILE).unlink(missing_ok=True)

    async def _ask_all(self, roll: Roll) -> None:
        questions = self._hub.parts.questions
        nodes = [node for node in questions.readers() if not roll.has_done(node)]
        turns = asyncio.Semaphore(CONCURRENT_MAX)

        async def ask_in_turn(node: str) -> None:
            async with turns:
                await self._ask(roll, node)

        await asyncio.gather(*map(ask_in_turn, nodes))
        if roll.phase is Phase.RENEW:
            self._note("renewed", [node for node in self._hub.parts.guard.nodes() if self._is_renewed(node)])

    async def _ask(self, roll: Roll, node: str) -> None:
        step = Phase.WITHDRAW if roll.phase is Phase.DONE else roll.phase
        question = {"asker": str(self._hub.address), "authority": {"step": step, "succession": roll.succession}}
        try:
            answer = await self._hub.parts.questions.ask(node, question)
        except SemqError as error:
            self._faults[node] = str(error)
            return
        result = answer.get("result")
        if not answer.get("ok") or not isinstance(result, dict):
            refusal = answer.get("error")
            fields = refusal if isinstance(refusal, dict) else {}
            self._faults[node] = shortened(f"{fields.get('code')} {fields.get('text')}", 300)
            return
        self._faults.pop(node, None)
        if result.get("fault"):
            self._faults[node] = shortened(str(result["fault"]), 300)
        if result.get("trusts_new"):
            self._note("believing", [node])
            if result.get("trusts_former") is False:
                self._note("dropped", [node])

    def _is_renewed(self, node: str) -> bool:
        """Return whether the node's session has a certificate that the former authority has not signed."""
        assert self.state is not None
        certificate, former = self._hub.parts.guard.certificate(node), self.state.succession.former
        trusted = self._hub.identity_in_use().trust.authorities
        return certificate is not None and not any(
            fingerprint_of(authority) == former and is_issued_by(certificate, authority) for authority in trusted
        )

    def _note(self, name: str, names: Iterable[str], roll: Roll | None = None) -> None:
        """Add names to list ``name`` of the state; with ``roll``, only if the phase is still the phase of ``roll``."""
        with self._locked_state():
            if self.state is not None and (roll is None or _is_same_phase(self.state, roll)):
                self._save(self.state.noted(name, names))

    async def _begin_next_phase(self) -> None:
        roll = self.state
        assert roll is not None
        if roll.phase is Phase.DONE or await self._missing(roll) or await self._missing_stores(roll):
            return
        next_phase = STEPS[roll.phase][0]
        with self._locked_state():
            if self.state is None or not _is_same_phase(self.state, roll):
                return  # another instance has begun the next phase
            self._save(replace(self.state, phase=next_phase, established=()))
        log.warning("authority_roll_phase", phase=next_phase.value, left_behind=list(roll.left_behind))
        await self._establish(self.state)

    async def _missing(self, roll: Roll) -> list[str]:
        return [node for node in await self._active() if node not in roll.left_behind and not roll.has_done(node)]

    async def _missing_stores(self, roll: Roll) -> list[str]:
        return [store for store in await self._hub.served_stores() if store not in roll.established]

    async def _active(self) -> list[str]:
        """Return the institutions with a valid certificate, or a session with one."""
        valid = {node for node, days in (await self._hub.registry.days_left()).items() if days > 0}
        return sorted(node for node in valid | set(self._hub.parts.guard.nodes()) if self._hub.is_node(node))

    @contextmanager
    def _locked_state(self) -> Iterator[None]:
        """Lock and read the state, which other instances change, too."""
        with locked(self._folder / LOCK_FILE):
            self.state = read_roll(self._folder)
            yield

    def _save(self, roll: Roll) -> None:
        if roll != self.state:
            write_safely(self._folder / STATE_FILE, msgspec.json.encode(roll))
            self.state = roll

    async def status(self) -> RollStatus:
        """Return the phase, the nodes and stores that it waits for, and the progress of each node."""
        self.state = read_roll(self._folder)
        authority, roll = self._hub.registry.authority, self.state
        own = authority.fingerprint if authority is not None else None
        if roll is None:
            return RollStatus(authority=own)
        is_done = roll.phase is Phase.DONE
        return RollStatus(
            authority=own,
            phase=roll.phase.value,
            former=roll.succession.former,
            new=fingerprint_of(roll.succession.new),
            started_at=utc_text(roll.started_at),
            waiting_for=() if is_done else await self._missing(roll),
            waiting_for_stores=() if is_done else await self._missing_stores(roll),
            nodes=[self._state_of(roll, node) for node in sorted({*await self._active(), *roll.left_behind})],
        )

    def _state_of(self, roll: Roll, node: str) -> RolledNode:
        reached = [text for name, text in STATE_TEXTS.items() if node in getattr(roll, name)]
        return RolledNode(
            node=node,
            state=reached[-1] if reached else "trusts the former one",
            online=self._hub.parts.questions.has_reader(node),
            left_behind=node in roll.left_behind,
            fault=self._faults.get(node, ""),
        )


def _is_same_phase(first: Roll, second: Roll) -> bool:
    return (first.generation, first.phase) == (second.generation, second.phase)
