"""The operations of a hub with several instances: those about messages ask all stores, at any instance.

``FanOut.offered`` returns the operations as the doors of an instance offer them. Without a row in FANNED an operation
is about this instance, or about the control database that all have. A store that cannot be asked is named by the error
StoresUnreached, which has the answer of the others.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from platform_node.all_stores import combination
from platform_node.all_stores.combination import Answers, Combine, StorePlace, named, number_of, place_in, store_text
from platform_node.all_stores.store_questions import Answered, StoreQuestions, plain
from semq.engine.hub.carrier import StoreName
from semq.errors import SemqError, Unavailable
from semq.service.errors import BadArguments, StoresUnreached
from semq.service.operations.arguments import read_arguments
from semq.service.operations.operation import BoundOperation, Caller, OfferedOperation, Operation

FOUND = "msg.show"  # its answer shows which store has a message
Given = Mapping[str, Any]


class StoreRefused(SemqError):
    """The refusal of another store; code, remedy and facts are its own."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(str(error["text"]), **error["facts"])
        self.code = str(error["code"])  # type: ignore[misc]
        self.remedy = str(error["remedy"])  # type: ignore[misc]


class ManyStores(Protocol):
    """The part of the instance that is used."""

    store_questions: StoreQuestions
    store: StoreName  #: the store of this instance

    def stores(self) -> list[StoreName]:
        """Return the stores of the hub in the order in which they were added, without those that are retired."""


@dataclass(frozen=True, slots=True)
class FannedOperation:
    """An operation that asks several stores. Called like the operation of one instance."""

    operation: Operation
    run: Callable[[Given, Caller], Awaitable[Any]]

    async def __call__(self, given: Given, caller: Caller) -> Any:
        """Check the arguments and ask. Raises BadArguments, StoresUnreached, and refusals of the stores."""
        read_arguments(self.operation.name, self.operation.arguments, given)
        return await self.run({name: value for name, value in given.items() if value is not None}, caller)


class FanOut:
    """The operations over all stores, at one instance."""

    def __init__(
        self,
        hub: ManyStores,
        own: Mapping[str, BoundOperation],
        with_parties: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]],
    ) -> None:
        """``with_parties`` adds the ledger lines of sender and receiver to a trace."""
        self._hub = hub
        self._own = own
        self._with_parties = with_parties

    def offered(self) -> dict[str, OfferedOperation]:
        """Return all operations of this instance."""
        return {name: self._fanned(name, bound) if name in FANNED else bound for name, bound in self._own.items()}

    def _fanned(self, name: str, bound: BoundOperation) -> FannedOperation:
        async def run(given: Given, caller: Caller) -> Any:
            return await FANNED[name](self, name, given, caller)

        return FannedOperation(bound.operation, run)

    # --- questions
    async def _ask(self, store: StoreName, name: str, given: Given, caller: Caller) -> Answered:
        """Ask one store. Raises nothing of SEMQ's."""
        if store != self._hub.store:
            return await self._hub.store_questions.ask(store, name, given, caller.user)
        try:
            return Answered(store, plain(await self._own[name](given, caller)))
        except Unavailable as error:
            return Answered(store, unreached=f"{error.code} {error.text}")
        except SemqError as error:
            return Answered(store, error={"error": error})

    async def ask_all(self, name: str, given: Given, caller: Caller) -> list[Answered]:
        """Ask all stores at once."""
        return await asyncio.gather(*(self._ask(store, name, given, caller) for store in self._hub.stores()))

    async def all(self, name: str, given: Given, caller: Caller, combine: Combine) -> Any:
        """Return the combined answers of all stores."""
        answered = await self.ask_all(name, given, caller)
        results = [(one.store, _result(one)) for one in answered if not one.unreached]
        limit = read_arguments(name, self._own[name].operation.arguments, given)
        whole = combine(results, {"limit": getattr(limit, "limit", 0)}) if results else None
        return _complete(whole, answered)

    async def one(self, name: str, given: Given, caller: Caller, combine: Combine = combination.first) -> Any:
        """Return the answer of the store that has the message. Raises the refusal of a store if none has it."""
        answered = await self.ask_all(name, given, caller)
        results = [(one.store, one.result) for one in answered if not (one.unreached or one.error)]
        if not results:
            refusals = [one for one in answered if one.error]
            own = [one for one in refusals if one.store == self._hub.store]
            return _complete(None, answered) if _unreached(answered) else _result((own or refusals)[0])
        if len(lk0s := {_lk0(result) for _, result in results}) > 1:
            raise BadArguments("The name fits several messages; give an LK0.", found=sorted(lk0s)[:5])
        whole = combine(results, given)
        is_past = bool(whole.get("cleaned"))
        return _complete(whole, answered) if is_past or combine is not combination.first else whole

    async def where(self, name: str, given: Given, caller: Caller) -> Any:
        """Act on a message in the store that has its row."""
        store = await self._store_of(str(given["id"]), caller)
        return named(store, _result(_reached(await self._ask(store, name, given, caller))))

    async def trace(self, name: str, given: Given, caller: Caller) -> Any:
        """Return the ledger lines of all stores, on request also those of sender and receiver."""
        missing: StoresUnreached | None = None
        try:
            traced = await self.one(name, {**given, "parties": False}, caller, combination.histories)
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
        lk1 = stores.get(message.rpartition(".")[0])
        if lk1 is not None:
            return lk1
        return stores[(await self.one(FOUND, {"id": message}, caller))["store"]]

    # --- lists from store to store
    async def listed(self, name: str, given: Given, caller: Caller) -> Any:
        """Return the rows of a list that has a place, store by store; each row has its place."""
        stores, place = self._hub.stores(), place_in(int(given.get("after", 0)))
        limit = int(given.get("limit", 500))
        rows: combination.Rows = []
        answered: list[Answered] = []
        for position in range(place.store, len(stores)):
            after = place.number if position == place.store else 0
            wanted = {**given, "after": after, "limit": limit - len(rows)}
            answered.append(await self._ask(stores[position], name, wanted, caller))
            if not answered[-1].unreached:
                found = _result(answered[-1])
                for row in found:
                    after = number_of(StorePlace(position, row["id"]))
                    rows.append(named(stores[position], row) | {"after": after})
            if len(rows) >= limit:
                break
        return _complete(rows, answered)

    async def paged(self, name: str, given: Given, caller: Caller) -> Any:
        """Return a page of rows, store by store."""
        at = "after" if name == "failed.page" else "outbound"
        stores, place = self._hub.stores(), place_in(int(given.get(at, 0)))
        limit = int(given.get("limit", 50))
        answered: list[Answered] = []
        page: dict[str, Any] = {"rows": [], "looked_at": 0, "next": None}
        position, number = place
        while position < len(stores) and len(page["rows"]) < limit:
            wanted = {**given, "limit": limit - len(page["rows"])} | ({at: number} if number else {})
            if not number:
                wanted.pop(at, None)
            answered.append(await self._ask(stores[position], name, wanted, caller))
            found = {"rows": [], "next": None} if answered[-1].unreached else _result(answered[-1])
            page["rows"] += [named(stores[position], row) for row in found["rows"]]
            page["looked_at"] += found.get("looked_at", 0)
            page |= {fact: found[fact] for fact in ("as_of",) if fact in found}
            further = found["next"] if at == "after" or found["next"] is None else found["next"][at]
            position, number = (position, further) if further is not None else (position + 1, 0)
            if further is not None:
                break
        if position < len(stores):
            page["next"] = number_of(StorePlace(position, number))
            page["next"] = page["next"] if at == "after" else {"outbound": page["next"], "inbound": None}
        if at == "after":
            page["of"], page["as_of"] = await self._failed(caller), page.get("as_of", 0)
        return _complete(page, answered)

    async def _failed(self, caller: Caller) -> int:
        answered = await self.ask_all("queue.census", {}, caller)
        return sum(one.result["failed"] for one in answered if one.result is not None)

    async def copies(self, name: str, given: Given, caller: Caller) -> Any:
        """Act on named copies, or on the next batch of one store."""
        if given.get("ids"):
            return await self._named_copies(name, given, caller)
        stores, place = self._hub.stores(), place_in(int(given.get("after", 0)))
        if place.store >= len(stores):
            raise BadArguments("There is no such place.", after=given["after"])
        store = stores[place.store]
        answered = await self._ask(store, name, {**given, "after": place.number}, caller)
        batch: dict[str, Any] = {"counts": {}, "done": True} if answered.unreached else _result(answered)
        following = StorePlace(place.store + 1, 0) if batch["done"] else StorePlace(place.store, batch["after"])
        batch |= {"after": number_of(following), "done": following.store >= len(stores)}
        return _complete(batch, [answered])

    async def _named_copies(self, name: str, given: Given, caller: Caller) -> Any:
        found = await asyncio.gather(*(self._store_of(str(one), caller) for one in given["ids"]))
        counts: Counter[str] = Counter()
        answered: list[Answered] = []
        for store in dict.fromkeys(found):
            ids = [one for one, where in zip(given["ids"], found, strict=True) if where == store]
            answered.append(await self._ask(store, name, {**given, "ids": ids}, caller))
            if not answered[-1].unreached:
                counts.update(_result(answered[-1])["counts"])
        return _complete({"counts": dict(counts), "after": 0, "done": True}, answered)


Way = Callable[[FanOut, str, Given, Caller], Awaitable[Any]]


def _all(combine: Combine) -> Way:
    async def run(fan: FanOut, name: str, given: Given, caller: Caller) -> Any:
        return await fan.all(name, given, caller, combine)

    return run


def health(answers: Answers, arguments: Mapping[str, Any]) -> combination.Rows:
    """Return the health of each instance."""
    return [row for _, answer in answers for row in answer]


FANNED: dict[str, Way] = {
    "held.list": FanOut.listed,
    "held.count": _all(combination.rows),
    "held.refuse": FanOut.copies,
    "held.resend": FanOut.copies,
    "msg.list": _all(combination.newest),
    "msg.show": FanOut.one,
    "msg.body": FanOut.one,
    "msg.outlook": FanOut.one,
    "msg.search": FanOut.paged,
    "msg.trace": FanOut.trace,
    "msg.inquire": FanOut.where,
    "msg.resend": FanOut.where,
    "stuck.list": _all(combination.oldest),
    "stuck.explain": FanOut.one,
    "stuck.causes": _all(combination.causes),
    "stuck.page": FanOut.paged,
    "failed.page": FanOut.paged,
    "queue.counts": _all(combination.added),
    "queue.partners": _all(combination.rows),
    "queue.census": _all(combination.census),
    "nodes.list": _all(combination.institutions),
    "stores.list": _all(combination.stores),
    "hub.health": _all(health),
}


def _result(answered: Answered) -> Any:
    """Return a result. Raises the refusal of the store."""
    if answered.error is None:
        return answered.result
    own = answered.error.get("error")
    raise own if isinstance(own, SemqError) else StoreRefused(answered.error)


def _reached(answered: Answered) -> Answered:
    return answered if not answered.unreached else _complete(None, [answered])


def _unreached(answered: list[Answered]) -> list[Answered]:
    return [one for one in answered if one.unreached]


def _complete(whole: Any, answered: list[Answered]) -> Any:
    """Return an answer to which all stores have contributed. Raises StoresUnreached with the others' answer."""
    unreached = _unreached(answered)
    if not unreached:
        return whole
    error = StoresUnreached(**{f"store {store_text(one.store)}": one.unreached for one in unreached})
    error.result = whole
    raise error


def _lk0(result: Mapping[str, Any]) -> str:
    return str((result.get("message") or result)["lk0"])
