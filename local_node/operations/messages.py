"""Operations on a local node's own messages: submit, cancel, hold, release, resend, requeue, remove, drain."""

import asyncio
from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from local_node.doors.refused_submissions import Mended
from local_node.doors.sql_submissions import SubmissionFate
from semq.engine.errors import NotThere
from semq.engine.frames import check_carried
from semq.engine.ports import Accepted, Submission
from semq.engine.receiver.handover import ActReport
from semq.service.admin import BadArguments, Handler, committed
from semq.service.message_names import find_one, find_open
from semq.store.views.names import find_messages
from semq.store.views.submissions import PREFIX, SUBMITTED
from semq.umx_t.address import parse_address
from semq.umx_t.attributes import ARGUMENTS, PROPERTIES, submission_headers
from semq.umx_t.headers import OF_TRANSPORT, read_submission
from semq.umx_t.locator import LK0, parse_lk0
from semq.umx_t.short_name import short_name

if TYPE_CHECKING:
    from local_node.node import LocalNode

DRAIN_S_MAX = 24 * 3600
FATE_S = 5.0  # time that a command waits for the result of a submission that is tried again
TAKEN = frozenset({*ARGUMENTS, *PROPERTIES, "target", "body_base64", "headers", "sender"})


class LocalOperations:
    """The handlers, by name."""

    def __init__(self, node: "LocalNode") -> None:
        self._node = node

    def table(self) -> dict[str, Handler]:
        """Operation | handler."""
        return {
            "msg.submit": self.submit,
            "msg.cancel": self.cancel,
            "msg.hold": self.hold,
            "msg.release": self.release,
            "msg.resend": self.resend,
            "failed.requeue": self.requeue,
            "failed.remove": self.remove,
            "node.drain": self.drain,
        }

    async def submit(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Accept a document; answer when it is committed."""
        for name in arguments:
            if name not in TAKEN:
                raise BadArguments(f"msg.submit has no argument {name}.")
        properties = {name: arguments.get(name) for name in PROPERTIES}
        headers = arguments.get("headers", {}) | submission_headers(arguments)
        attributes, token = read_submission(headers, properties)
        check_carried(attributes)
        body = b64decode(arguments.get("body_base64", ""), validate=True)
        target = parse_address(arguments["target"])
        sender = OF_TRANSPORT["@Sender"][1]("sender", arguments.get("sender", ""))

        def post(done: Callable[[Accepted], None], failed: Callable[[Exception], None]) -> None:
            submission = Submission(target, attributes, body, done, failed, token=token, sender=sender)
            self._node.engine.submit([submission])

        accepted = await committed(post)
        name, digest = short_name(str(accepted.lk0)), accepted.digest.hex()
        return {"name": name, "lk0": str(accepted.lk0), "repeated": accepted.repeated, "digest": digest}

    async def cancel(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Replace a message by a void marker, or withdraw a waiting SQL submission."""
        given = str(arguments.get("why") or "")
        row = (await find_one(self._node.store, str(arguments["id"])))[0]
        if row.get("submission") and row["outcome"] is None:
            withdrawn = await self._withdraw(int(row["submission"]), given)
            if withdrawn is not None:
                return {"name": row["name"], "lk0": str(withdrawn), "withdrawn": True}
        operating = self._node.engine.operating
        lk0 = await self._open(arguments)
        await _act(lambda done, failed: operating.cancel(lk0, done, failed, given or "cancelled"))
        return {"name": short_name(str(lk0)), "lk0": str(lk0), "cancelling": True}

    async def _withdraw(self, number: int, why: str) -> LK0 | None:
        """Withdraw a submission; return its name in the ledger, or None if it has become a document."""
        submissions = self._node.submissions
        try:
            return await committed(lambda done, failed: submissions.withdraw(number, why, done, failed))
        except NotThere:
            return None

    async def hold(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Hold a message before it is sent."""
        return await self._hold(arguments, held=True)

    async def release(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Release a held message."""
        return await self._hold(arguments, held=False)

    async def resend(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Send another copy of an unfinished message."""
        operating = self._node.engine.operating
        lk0, why = await self._open(arguments), str(arguments.get("why") or "")
        await _act(lambda done, failed: operating.resend(lk0, why, done, failed))
        return {"name": short_name(str(lk0)), "lk0": str(lk0), "resent": True}

    async def requeue(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Give parked documents to the application again, try refused submissions again; how many, and what became of
        the latter by their old names.

        ``ids``: record ids of tb_0030, or the locators of refusals."""
        why = str(arguments.get("why") or "")
        names = [str(one) for one in arguments["ids"]]
        brefs = [record_id(name) for name in names if name.isdecimal()]
        requeued = await counted(lambda told: self._node.engine.handing.requeue(brefs, why, told)) if brefs else 0
        became: dict[str, dict[str, Any]] = {}
        if refused := [str(parse_lk0(name)) for name in names if not name.isdecimal()]:
            numbers = await self._mend(refused, True, why)
            became = await self._fates(numbers)
        return {"requeued": requeued + len(became), "became": became}

    async def _fates(self, numbers: Mapping[str, int]) -> dict[str, dict[str, Any]]:
        """What the next look makes of submissions, by their old names; those not looked at in time are SUBMITTED."""
        submissions, loop = self._node.submissions, asyncio.get_running_loop()
        heard: dict[int, asyncio.Future[SubmissionFate]] = {number: loop.create_future() for number in numbers.values()}
        for number, future in heard.items():
            submissions.listen(number, future.set_result)
        submissions.poll()
        await asyncio.wait(heard.values(), timeout=FATE_S)
        for number, future in heard.items():
            submissions.deaf(number, future.set_result)
        return {lk0: _became(number, heard[number]) for lk0, number in numbers.items()}

    async def remove(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Remove failed documents: parked ones by record id, refused ones by LK0."""
        why = str(arguments.get("why") or "")
        names = [str(one) for one in arguments["ids"]]
        operating = self._node.engine.operating
        brefs = [record_id(name) for name in names if name.isdecimal()]
        removed = await counted(lambda told: self._node.engine.handing.remove(brefs, why, told)) if brefs else 0
        for name in names:
            if not name.isdecimal():
                lk0 = parse_lk0(name)
                if "submission" in await self._row_of(name):
                    removed += len(await self._mend([str(lk0)], False, why))
                    continue
                await _act(lambda done, failed, lk0=lk0: operating.remove(lk0, why, done, failed))  # type: ignore[misc]
                removed += 1
        return {"removed": removed}

    async def _row_of(self, name: str) -> dict[str, Any]:
        found = await self._node.store.read(find_messages, name, 1)
        return found[0] if found else {}

    async def _mend(self, lk0s: list[str], again: bool, why: str) -> dict[str, int]:
        """Requeue or remove refused submissions; return their names and numbers. Raises NotThere."""
        core = self._node.engine.core
        return await committed(lambda done, failed: core.post(Mended(core, lk0s, again, why, done, failed)))

    async def _hold(self, arguments: Mapping[str, Any], *, held: bool) -> dict[str, Any]:
        operating = self._node.engine.operating
        lk0 = await self._open(arguments)
        await _act(lambda done, failed: operating.hold(lk0, held, str(arguments.get("why") or ""), done, failed))
        return {"name": short_name(str(lk0)), "lk0": str(lk0), "held": held}

    async def _open(self, arguments: Mapping[str, Any]) -> LK0:
        """Return the unfinished own message with a name. Raises NotThere, TooLate, BadArguments."""
        return parse_lk0((await find_open(self._node.store, str(arguments["id"])))["lk0"])

    async def drain(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Stop accepting documents and wait until none is in progress."""
        timeout_s = float(arguments.get("timeout_s", 30.0))
        if not 0 <= timeout_s <= DRAIN_S_MAX:
            raise BadArguments(f"node.drain waits for up to {DRAIN_S_MAX} seconds.", timeout_s=timeout_s)
        self._node.engine.accepting.stop()
        return {"drained": await self._node.drained(timeout_s)}


def _became(number: int, heard: "asyncio.Future[SubmissionFate]") -> dict[str, Any]:
    fate = heard.result() if heard.done() else SubmissionFate(SUBMITTED.lower())
    name = fate.lk0 or f"{PREFIX}{number}"
    told = {"submission": number, "state": fate.state, "name": short_name(name) or name, "lk0": fate.lk0}
    return told | ({"reason": list(fate.reason)} if fate.reason else {})


def record_id(name: Any) -> int:
    """Read the number of a row of tb_0030. Raises BadArguments, TypeError, ValueError."""
    number = int(name)
    if not 0 < number < 1 << 63:
        raise BadArguments("This is no number of a row.", id=str(name)[:80])
    return number


async def counted(post: Callable[[ActReport], None]) -> int:
    """Act on documents; return their number after the commit. Raises the errors of the store."""
    return await committed(lambda done, failed: post(ActReport(done, failed)))


async def _act(post: Callable[[Callable[[], None], Callable[[Exception], None]], None]) -> None:
    def to(done: Callable[[None], None], failed: Callable[[Exception], None]) -> None:
        post(lambda: done(None), failed)

    await committed(to)
