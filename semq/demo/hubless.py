"""The demo without a hub: 10008 and 56001 have a direct link, and certificates of one authority. 10008 dials 56001."""

from semq.demo.configuration import RECEIVER, SENDER, write_configuration
from semq.demo.scenario import Scenario
from semq.installation.configuration import NodePlace
from semq.installation.enrolment import install_certificates


class HublessScenario(Scenario):
    """One run of the demo without a hub."""

    def _configured(self) -> dict[str, NodePlace]:
        places = write_configuration(self._folder, self.began_at.hour, secure=True, direct=True, has_hub=False)
        install_certificates(places.values())
        return places

    def way(self) -> str:
        return "to 56001 by a direct link; there is no hub"

    async def _start_nodes(self) -> None:
        self._say(f"starting {SENDER} and {RECEIVER}, each with its own database and a certificate of their authority")
        await self._run_all(self._nodes)

    async def _kill_hub(self) -> None:
        """Do nothing, because there is no hub."""
