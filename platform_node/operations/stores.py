"""Operations on the hub's stores: list and add stores, move homes between them, declare a store permanently lost.

A move of homes concerns new documents only: stored documents stay until they are delivered. ``leaving`` in
``stores.list`` is the number of documents that a store holds for institutions whose home is another store.
"""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, TypeAlias

import structlog
from msgspec import UNSET, Meta, UnsetType, to_builtins
from msgspec.structs import replace

from platform_node.cluster import Membership
from platform_node.errors import OneStore
from platform_node.ports import OperatedHub
from platform_node.registry import node_in
from semq.access_rights import AccessRole
from semq.answers import OperationAnswer
from semq.engine.errors import UnknownTarget
from semq.engine.hub.carrier import StoreName
from semq.service.admin import committed
from semq.service.errors import BadArguments
from semq.service.operations.arguments import Arguments, Institution
from semq.service.operations.operation import Caller, act, look
from semq.store.control import cluster as control
from semq.store.identities import retired_stores
from semq.store.rows import RetiredStore

NUMBER_MAX = 0x7FFF_FFFF
WHY_MAX = 500
WEIGHT_MAX = 1000.0
NODES_MAX = 10_000
log = structlog.get_logger("semq.platform")


StoreText: TypeAlias = Annotated[
    str,
    Meta(
        max_length=21,
        pattern=r"^[0-9]{1,10}\.[0-9]{1,10}$",
        description="Store: its two numbers, with which the LK1 of each of its copies begins (1.2).",
    ),
]


class RetireStore(Arguments, frozen=True, kw_only=True):
    """A store that is lost, and why."""

    store: StoreText
    why: Annotated[
        str,
        Meta(max_length=WHY_MAX, pattern=r"\S", description="Why the store is lost for good; `stores.list` shows it."),
    ]


class WeighStore(Arguments, frozen=True, kw_only=True):
    """A store, and its share of homes."""

    store: StoreText
    weight: Annotated[
        float, Meta(ge=0, le=WEIGHT_MAX, description="Share of homes relative to other stores; 0: it gets none.")
    ] = 1.0


class MoveHomes(Arguments, frozen=True, kw_only=True):
    """Institutions, and the store that becomes their home."""

    store: StoreText
    nodes: Annotated[tuple[Institution, ...], Meta(min_length=1, max_length=NODES_MAX, description="Institutions.")]


class BalanceHomes(Arguments, frozen=True, kw_only=True):
    """Whether homes are moved, or only counted."""

    dry_run: Annotated[bool, Meta(description="Move nothing; only count the homes that would move.")] = False


class StoreRow(OperationAnswer, frozen=True, kw_only=True):
    """A store of the hub, or one that nodes have asked about."""

    store: str
    state: str  #: in use, elsewhere (in use by another instance), new, retired, not here
    held: int | UnsetType = UNSET  #: documents that it stores
    leaving: int | UnsetType = UNSET  #: of these: for institutions whose home is another store
    weight: float | UnsetType = UNSET  #: share of homes
    homes: int | UnsetType = UNSET  #: institutions whose home it is
    by: str | UnsetType = UNSET  #: who retired it
    why: str | UnsetType = UNSET
    at: datetime | UnsetType = UNSET  #: when it was retired
    asked: int | UnsetType = UNSET  #: records about copies of a store that is not here


class WeighedStore(OperationAnswer, frozen=True, kw_only=True):
    """A store and its share of homes."""

    store: str
    weight: float


class HomeMove(OperationAnswer, frozen=True, kw_only=True, rename={"former": "from"}):
    """Homes that move from one store to another."""

    former: str | None  #: null: they had no home
    to: str
    homes: int


class MovedHomes(OperationAnswer, frozen=True, kw_only=True):
    """Homes that have moved, or would move."""

    homes: int
    moves: list[HomeMove]


class RetirementOfStore(OperationAnswer, frozen=True, kw_only=True):
    """A store that is retired."""

    store: str
    was_retired: bool  #: it was retired before


class StoreOperations:
    """The handlers."""

    def __init__(self, node: OperatedHub) -> None:
        self._node = node

    async def list_all(self, arguments: Arguments) -> list[StoreRow]:
        """List the hub's stores, the retired ones, and unknown ones that nodes have asked about."""
        stores = self._node.engine.custody.stores
        held = self._node.engine.custody.rows_by_target
        own = StoreRow(store=_text(stores.own_store), state="in use", held=sum(held.values()))
        member, others = self._node.membership, dict[StoreName, StoreRow]()
        if member is not None:
            homes_of_store = Counter(member.homes.homes.values())
            others = {
                name: StoreRow(store=_text(name), state="elsewhere" if store.is_open else "new", weight=store.weight,
                                 homes=homes_of_store[name])
                for name, store in member.homes.stores.items() if name not in member.homes.retired
            }  # fmt: skip
            homes, here = member.homes.homes, stores.own_store
            leaving = sum(count for node, count in held.items() if homes.get(node, here) != here)
            listed = others.pop(here, own)
            own = replace(own, weight=listed.weight, homes=listed.homes, leaving=leaving)
        retired = [
            StoreRow(store=_text(row.name), state="retired", by=row.retired_by, why=row.why, at=at)
            for row, at in await self._node.store.execute(retired_stores)
        ]
        missed = sorted(item for item in stores.missed.items() if item[0] not in others)
        unknown = [StoreRow(store=_text(name), state="not here", asked=count) for name, count in missed]
        return [own, *others.values(), *retired, *unknown]

    async def add(self, arguments: WeighStore, caller: Caller) -> WeighedStore:
        """Add a store to the hub, or change the share of homes of a store. No home moves yet."""
        member, name = self._membership(), _name(arguments.store)
        if name in member.homes.retired:
            raise BadArguments("This store is retired.", store=arguments.store)
        await member.execute(control.set_weight, name, arguments.weight)
        await member.read_homes()
        return WeighedStore(store=_text(name), weight=arguments.weight)

    async def move(self, arguments: MoveHomes, caller: Caller) -> MovedHomes:
        """Make a store the home of institutions; other stores deliver the documents that they hold."""
        member, name = self._membership(), _name(arguments.store)
        await member.read_homes()
        if not member.homes.is_in_use(name):
            raise BadArguments(
                "This store is not in use: no instance has opened it, or it is retired.", store=arguments.store
            )
        nodes = [str(node_in(node)) for node in arguments.nodes]
        for node in nodes:
            if not self._node.is_node(node):
                raise UnknownTarget(target=node)
        return await self._move({node: name for node in nodes if member.homes.homes.get(node) != name})

    async def balance(self, arguments: BalanceHomes, caller: Caller) -> MovedHomes:
        """Give each institution the home that its name and the weights of the stores determine."""
        member = self._membership()
        await member.read_homes()
        assigned = member.homes.homes_by_weight(map(str, self._node.directory.nodes()))
        if not assigned:
            raise BadArguments("No store takes homes: all have weight 0.")
        moves = {node: store for node, store in assigned.items() if member.homes.homes.get(node) != store}
        if arguments.dry_run:
            return self._summary(moves)
        return await self._move(moves)

    async def _move(self, moves: Mapping[str, StoreName]) -> MovedHomes:
        member = self._membership()
        summary = self._summary(moves)
        await member.execute(control.move_homes, moves)
        await member.read_homes()
        log.warning("homes_moved", **to_builtins(summary))
        return summary

    def _summary(self, moves: Mapping[str, StoreName]) -> MovedHomes:
        homes = self._membership().homes.homes
        counts = Counter((homes.get(node), store) for node, store in moves.items())
        ordered = sorted(counts.items(), key=lambda item: item[0][1])
        return MovedHomes(
            homes=len(moves),
            moves=[
                HomeMove(former=_text(former) if former is not None else None, to=_text(new), homes=count)
                for (former, new), count in ordered
            ],
        )

    def _membership(self) -> Membership:
        if self._node.membership is None:
            raise OneStore
        return self._node.membership

    async def retire(self, arguments: RetireStore, caller: Caller) -> RetirementOfStore:
        """Declare a store lost: its documents are sent again, or end as their receivers' ledgers say."""
        name, why = _name(arguments.store), arguments.why.strip()
        if self._node.membership is not None and name != self._node.membership.store:
            row = RetiredStore(*name, caller.user, why)
            return RetirementOfStore(store=_text(name), was_retired=await self._node.membership.retire(row))
        stores = self._node.engine.custody.stores
        was_retired: bool = await committed(lambda done, failed: stores.retire(name, caller.user, why, done, failed))
        log.warning("store_retired", store=_text(name), by=caller.user, why=why)
        return RetirementOfStore(store=_text(name), was_retired=was_retired)


STORES = (
    look("stores.list", AccessRole.VIEWER, Arguments, StoreOperations.list_all),
    act("stores.add", AccessRole.ADMIN, WeighStore, StoreOperations.add),
    act("stores.move", AccessRole.ADMIN, MoveHomes, StoreOperations.move),
    act("stores.balance", AccessRole.ADMIN, BalanceHomes, StoreOperations.balance),
    act("stores.retire", AccessRole.ADMIN, RetireStore, StoreOperations.retire),
)


def _name(text: str) -> tuple[int, int]:
    """Return the two numbers of a store. Raises BadArguments."""
    first, second = map(int, text.split("."))
    if not (1 <= first <= NUMBER_MAX and 1 <= second <= NUMBER_MAX):
        raise BadArguments(f"The numbers of a store are 1 to {NUMBER_MAX}.", store=text)
    return first, second


def _text(name: tuple[int, int]) -> str:
    return f"{name[0]}.{name[1]}"
