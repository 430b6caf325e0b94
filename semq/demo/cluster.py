"""The demo with a hub of several instances: two instances with a store each, and a standby of the second one.

Three of the six institutions connect to the first instance, and three to the second. Documents for 56001, which is
offline, wait in the second store. The second instance is killed while 10008 sends more documents; the standby takes
over its store.
"""

import asyncio
import time
from collections.abc import Iterable

from semq.demo.configuration import MORE_RECEIVERS, RECEIVER, SENDER, write_configuration
from semq.demo.scenario import Scenario
from semq.installation.configuration import CARRIER, HUB, STANDBY, NodePlace
from semq.store.embedded.server import EmbeddedPostgres

SECOND = f"{HUB}-2"  # the instance that is killed
STORE = "store-2"  # folder of the database server of the second instance and its standby


class ClusterScenario(Scenario):
    """One run of the demo with several instances."""

    receivers = (RECEIVER, *MORE_RECEIVERS)
    takeover_s = 0.0  #: seconds from the kill until the standby serves the store; 0 before

    def _configured(self) -> dict[str, NodePlace]:
        self._folder.mkdir(parents=True, exist_ok=True)
        server = self._exits.enter_context(EmbeddedPostgres(self._folder / STORE))
        return write_configuration(self._folder, self.began_at.hour, shared_database=server.url)

    def way(self) -> str:
        return f"to {len(self.receivers)} institutions through a hub of two instances and a standby"

    def served(self) -> Iterable[str]:
        """After the takeover, the standby replaces the second instance."""
        of_second_store = STANDBY if self.takeover_s else SECOND
        return (HUB, of_second_store, SENDER, *self.receivers)

    def extracted(self) -> dict[str, NodePlace]:
        """Return one node for each store."""
        return {name: self._places[name] for name in self.served()}

    def more_counts(self) -> dict[str, object]:
        return {"instances": len(self.hubs()), "stores": 2, "takeover_s": round(self.takeover_s, 2)}

    async def _start_nodes(self) -> None:
        self._say("starting the broker and the first instance of the hub, then the second one and its standby")
        await self._run_all((CARRIER, HUB))
        await self._run_all((SECOND,))
        self._connect(HUB)
        balance = await self._clients[HUB].request("stores.balance")
        self._say(f"{balance['homes']} institutions get the store of {SECOND} as their home (semq hub stores balance)")
        self._nodes[STANDBY].launch()
        self._say(f"starting {SENDER} and its {len(self.receivers)} partners, each with its own database")
        await self._run_all((SENDER, *self.receivers))

    async def _send_away(self) -> None:
        await self._stop_receiver()
        self._say("10008 sends while 56001 is offline")
        await self._send("away")
        await self._wait("the hub to have stored the documents for 56001", self._are_stored)
        self._say(f"10008 sends again; {SECOND} is killed (SIGKILL) meanwhile")
        await asyncio.gather(self._send("killed"), self._kill_second())
        await self._start_receiver()

    async def _kill_second(self) -> None:
        killed_at = time.monotonic()
        await self._nodes[SECOND].kill()
        await self._clients.pop(SECOND).close()
        await self._nodes[STANDBY].supervise_when_ready()
        self.takeover_s = time.monotonic() - killed_at
        self._say(f"{STANDBY} serves the store of {SECOND} after {self.takeover_s:.1f} s")
        self._connect(STANDBY)
