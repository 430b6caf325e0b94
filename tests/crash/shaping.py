"""Links that the kernel slows: ``tc`` delays the packets of a port, and drops those that its short queue cannot hold.

TCP repeats such packets, which a proxy cannot cause. A token bucket (``htb``) delays them, because ``netem`` is not in
every kernel. Only for a campaign in a network namespace of its own: ``lo`` is the network of the whole machine.
"""

import asyncio
import os
import shutil
import subprocess

ALONE = "CAMPAIGN_IN_OWN_NETWORK"  # environment variable; nodes refuse unknown ones that begin with SEMQ_
BURST = "4k"
PACKETS = "2"  # length of the queue of a slow link
DEVICE = ("dev", "lo")


class Shaper:
    """Slows the ports of links, each for a while."""

    def __init__(self) -> None:
        is_own_network = ALONE in os.environ and shutil.which("tc") is not None
        self.is_able = is_own_network and _tc("qdisc", "replace", *DEVICE, "root", "handle", "1:", "htb")
        self._slow: set[int] = set()

    async def slow(self, port: int, rate: str, seconds: float) -> None:
        """Let the packets from and to a port pass at a rate in the notation of ``tc``, for a time in seconds."""
        if not self.is_able or port in self._slow:
            return
        name = f"1:{port:x}"
        of_port = (*DEVICE, "parent", "1:", "protocol", "ip", "prio", str(port))
        self._slow.add(port)
        _tc("class", "add", *DEVICE, "parent", "1:", "classid", name, "htb", "rate", rate, "burst", BURST)
        _tc("qdisc", "add", *DEVICE, "parent", name, "pfifo", "limit", PACKETS)
        try:
            for end in ("sport", "dport"):
                _tc("filter", "add", *of_port, "u32", "match", "ip", end, str(port), "0xffff", "flowid", name)
            await asyncio.sleep(seconds)
        finally:
            _tc("filter", "del", *of_port)
            _tc("class", "del", *DEVICE, "classid", name)
            self._slow.remove(port)


def _tc(*words: str) -> bool:
    return subprocess.run(["tc", *words], check=False, capture_output=True).returncode == 0
