"""FANNED: operations of a hub instance that ask all stores, or the store of a message.

All other operations are about this instance, or about the shared control database. If stores cannot be asked,
StoresUnreached names them and contains the answer of the other stores, if there is one.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from platform_node.all_stores import combination
from platform_node.all_stores.combination import (
    Answers,
    Combine,
    StorePlace,
    number_for,
    place_of,
    store_text,
    with_store,
)
from platform_node.all_stores.store_questions import StoreAnswer, StoreQuestions, as_received
from semq.answers.messages import MessageTrace
from semq.engine.hub.carrier import StoreName
from semq.errors import SemqError, Unavailable
from semq.service.errors import BadArguments, StoresUnreached
from semq.service.operations.arguments import read_arguments
from semq.service.operations.operation import BoundOperation, Caller, OfferedOperation, Operation

T = TypeVar("T")
FIND_OPERATION = "msg.show"  # its answer names the store that has a message
Given = Mapping[str, Any]  #: the arguments of an operation, as the caller gave them


class ManyStores(Protocol):
    """The instance of the hub that asks the stores."""

    store_questions: StoreQuestions
    store: StoreName  #: the store of this instance

    def stores(self) -> list[StoreName]:
        """Return the opened stores that are not retired, in the order of addition."""


class FannedOperation(Struct, frozen=True):
    """An operation that asks several stores."""

    operation: Operation
    run: Callable[[Given, Caller], Awaitable[object]]

    async def __call__(self, given: Given, caller: Caller) -> object:
        """Run the operation. Raises BadArguments, StoresUnreached, and refusals of the stores."""
        read_arguments(self.operation.name, self.operation.arguments, given)
        return await self.run({name: value for name, value in given.items() if value is not None}, caller)


class FanOut:
    """The operations over all stores, at one instance."""

    def __init__(
        self,
        hub: ManyStores,
        own: Mapping[str, BoundOperation],
        with_parties: Callable[[MessageTrace], Awaitable[MessageTrace]],
    ) -> None:
        """``with_parties`` adds the ledger lines of sender and receiver to a trace."""
        self._hub = hub
        self._own = own
        self._with_parties = with_parties

    def offered(self) -> dict[str, OfferedOperation]:
        """Return the operations for administrators."""
        return {name: self._fanned(name, bound) if name in FANNED else bound for name, bound in self._own.items()}

    def _fanned(self, name: str, bound: BoundOperation) -> FannedOperation:
        async def run(given: Given, caller: Caller) -> object:
            if not self._hub.stores():  # otherwise a list would be empty, and pass for complete
                raise StoresUnreached(stores="this instance has just started and has opened none yet")
            return await FANNED[name](self, name, given, caller)

        return FannedOperation(bound.operation, run)

    # --- questions
    async def _ask(self, store: StoreName, name: str, given: Given, caller: Caller) -> StoreAnswer:
        """Ask one store. Raises no SemqError."""
        if store != self._hub.store:
            return await self._hub.store_questions.ask(store, name, given, caller.user)
        try:
            return StoreAnswer(store, as_received(await self._own[name](given, caller)))
        except Unavailable as error:
            return StoreAnswer(store, unreached=f"{error.code} {error.text}")
        except SemqError as error:
            return StoreAnswer(store, error=error)

    async def ask_all(self, name: str, given: Given, caller: Caller) -> list[StoreAnswer]:
        return await asyncio.gather(*(self._ask(store, name, given, caller) for store in self._hub.stores()))

    async def ask_and_combine(self, name: str, given: Given, caller: Caller, combine: Combine) -> object:
        answered = await self.ask_all(name, given, caller)
        results = [(answer.store, _result(answer)) for answer in answered if not answer.unreached]
        arguments = read_arguments(name, self._own[name].operation.arguments, given)
        combined = combine(results, {"limit": getattr(arguments, "limit", 0)}) if results else None
        return _complete(combined, answered)

    async def find_message(
        self, name: str, given: Given, caller: Caller, combine: Combine = combination.prefer_row
    ) -> Any:
        """Return the answer of the store that has the message.

        Raises BadArguments if the name fits several messages, StoresUnreached if an unreached store may have the
        message, and the refusal of a store if none has it.
        """
        answered = await self.ask_all(name, given, caller)
        results = [(answer.store, answer.result) for answer in answered if not (answer.unreached or answer.error)]
        if not results:
            refusals = [answer for answer in answered if answer.error]
            own_refusals = [answer for answer in refusals if answer.store == self._hub.store]
            return _complete(None, answered) if _unreached(answered) else _result((own_refusals or refusals)[0])
        if len(lk0s := {_lk0(result) for _, result in results}) > 1:
            raise BadArguments("The name fits several documents; give an LK0.", found=sorted(lk0s)[:5])
        combined = combine(results, given)
        if combine is combination.prefer_row and not combined.get("cleaned"):
            return combined
        return _complete(combined, answered)

    async def act_in_store(self, name: str, given: Given, caller: Caller) -> object:
        """Act in the store that has the row of a message."""
        store = await self._store_of(str(given["id"]), caller)
        return with_store(store, _result(_reached(await self._ask(store, name, given, caller))))

    async def trace(self, name: str, given: Given, caller: Caller) -> object:
        """Return the ledger lines of all stores; with argument ``parties`` also those of sender and receiver."""
        missing: StoresUnreached | None = None
        try:
            traced = await self.find_message(name, {**given, "parties": False}, caller, combination.histories)
        except StoresUnreached as error:
            if error.result is None:
                raise
            traced, missing = error.result, error
        if given.get("parties"):
            traced = await self._with_parties(traced)
        if missing is not None:
            missing.result = traced
            raise missing
        return traced

    async def _store_of(self, message: str, caller: Caller) -> StoreName:
        """Return the store of a message. Raises NotThere, TooLate, BadArguments, StoresUnreached."""
        stores = {store_text(store): store for store in self._hub.stores()}
        named_store = stores.get(message.rpartition(".")[0])  # an LK1 begins with the store
        if named_store is not None:
            return named_store
        return stores[(await self.find_message(FIND_OPERATION, {"id": message}, caller))["store"]]

    # --- lists from store to store
    async def listed(self, name: str, given: Given, caller: Caller) -> object:
        """Return rows, store by store. Argument ``after``: field ``after`` of the last row that the caller has."""
        stores, place = self._hub.stores(), place_of(int(given.get("after", 0)))
        limit = int(given.get("limit", 500))
        rows: combination.Rows = []
        answered: list[StoreAnswer] = []
        for position in range(place.store, len(stores)):
            after = place.number if position == place.store else 0
            page_arguments = {**given, "after": after, "limit": limit - len(rows)}
            answered.append(await self._ask(stores[position], name, page_arguments, caller))
            if not answered[-1].unreached:
                for row in _result(answered[-1]):
                    after = number_for(StorePlace(position, row["id"]))
                    rows.append(with_store(stores[position], row) | {"after": after})
            if len(rows) >= limit:
                break
        return _complete(rows, answered)

    async def paged(self, name: str, given: Given, caller: Caller) -> dict[str, object]:
        """Return at most ``limit`` rows, store by store, and the place of the next page. A hub has no other queue."""
        queue = "line" if given.get("ended") else "outbound"
        stores, place = self._hub.stores(), place_of(int(given.get(queue, 0)))
        limit = int(given.get("limit", 50))
        answered: list[StoreAnswer] = []
        rows: combination.Rows = []
        looked_at, (position, number) = 0, place
        while position < len(stores) and len(rows) < limit:
            page_arguments = {**given, "limit": limit - len(rows), queue: number or None}
            answered.append(await self._ask(stores[position], name, page_arguments, caller))
            part = {"rows": [], "next": None} if answered[-1].unreached else _result(answered[-1])
            rows += [with_store(stores[position], row) for row in part["rows"]]
            looked_at += part.get("looked_at", 0)
            if part["next"] is not None:
                number = part["next"][queue]
                break
            position, number = position + 1, 0
        following = {queue: number_for(StorePlace(position, number))} if position < len(stores) else None
        return _complete({"rows": rows, "looked_at": looked_at, "next": following}, answered)

    async def failed(self, name: str, given: Given, caller: Caller) -> object:
        """Return a page as ``paged`` does, with the number of all failed messages."""
        answered = await self.ask_all("queue.census", {}, caller)
        counted = [answer.result for answer in answered if answer.result is not None]
        figures = {
            "of": sum(census["failed"] for census in counted),
            "as_of": min((census["as_of"] for census in counted), default=0),
        }
        try:
            return await self.paged(name, given, caller) | figures
        except StoresUnreached as error:
            if error.result is not None:
                error.result |= figures
            raise

    async def act_on_copies(self, name: str, given: Given, caller: Caller) -> object:
        """Act on named copies, or on the next batch of one store."""
        if given.get("ids"):
            return await self._named_copies(name, given, caller)
        after = int(given.get("after", 0))
        stores, place = self._hub.stores(), place_of(after)
        if place.store >= len(stores):
            raise BadArguments("No store has this place; begin with after=0.", after=after)
        store = stores[place.store]
        answered = await self._ask(store, name, {**given, "after": place.number}, caller)
        batch: dict[str, Any] = {"counts": {}, "done": True} if answered.unreached else _result(answered)
        following = StorePlace(place.store + 1, 0) if batch["done"] else StorePlace(place.store, batch["after"])
        batch |= {"after": number_for(following), "done": following.store >= len(stores)}
        return _complete(batch, [answered])

    async def _named_copies(self, name: str, given: Given, caller: Caller) -> object:
        stores = await asyncio.gather(*(self._store_of(str(copy), caller) for copy in given["ids"]))
        counts: Counter[str] = Counter()
        answered: list[StoreAnswer] = []
        for store in dict.fromkeys(stores):
            ids = [copy for copy, store_of_copy in zip(given["ids"], stores, strict=True) if store_of_copy == store]
            answered.append(await self._ask(store, name, {**given, "ids": ids}, caller))
            if not answered[-1].unreached:
                counts.update(_result(answered[-1])["counts"])
        return _complete({"counts": dict(counts), "after": 0, "done": True}, answered)


FannedRun = Callable[[FanOut, str, Given, Caller], Awaitable[object]]


def _combined(combine: Combine) -> FannedRun:
    async def run(fan: FanOut, name: str, given: Given, caller: Caller) -> object:
        return await fan.ask_and_combine(name, given, caller, combine)

    return run


def health(answers: Answers, arguments: Mapping[str, object]) -> combination.Rows:
    """Return the health of each instance."""
    return [row for _, answer in answers for row in answer]


FANNED: dict[str, FannedRun] = {
    "held.list": FanOut.listed,
    "held.count": _combined(combination.rows),
    "held.refuse": FanOut.act_on_copies,
    "held.resend": FanOut.act_on_copies,
    "msg.list": FanOut.paged,
    "msg.count": _combined(combination.ended),
    "msg.show": FanOut.find_message,
    "msg.body": FanOut.find_message,
    "msg.outlook": FanOut.find_message,
    "msg.trace": FanOut.trace,
    "msg.inquire": FanOut.act_in_store,
    "msg.resend": FanOut.act_in_store,
    "stuck.list": FanOut.paged,
    "stuck.explain": FanOut.find_message,
    "stuck.causes": _combined(combination.causes),
    "failed.list": FanOut.failed,
    "queue.census": _combined(combination.census),
    "figures.pairs": _combined(combination.pairs),
    "figures.traffic": _combined(combination.traffic),
    "nodes.list": _combined(combination.institutions),
    "stores.list": _combined(combination.stores),
    "hub.health": _combined(health),
}


def _result(answered: StoreAnswer) -> Any:
    if answered.error is not None:
        raise answered.error
    return answered.result


def _reached(answered: StoreAnswer) -> StoreAnswer:
    return _complete(answered, [answered])


def _unreached(answered: list[StoreAnswer]) -> list[StoreAnswer]:
    return [answer for answer in answered if answer.unreached]


def _complete(combined: T, answered: list[StoreAnswer]) -> T:
    """Return the combined answer. Raises StoresUnreached, with this answer, if stores are missing."""
    unreached = _unreached(answered)
    if not unreached:
        return combined
    error = StoresUnreached(**{f"store {store_text(answer.store)}": answer.unreached for answer in unreached})
    error.result = combined
    raise error


def _lk0(result: Mapping[str, Any]) -> str:
    return str((result.get("message") or result)["lk0"])
