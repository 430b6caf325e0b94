"""``./run broker [--port N] [--data DIR]``: one local node without a hub, as a plain AMQP 0-9-1 broker for any client.

The node is durable in its own Postgres; documents for other institutions wait there. User ``guest`` with password
``guest`` has all rights in virtual host ``/``, from this machine only. The data folder has the configuration for the
command line, ``broker.toml``. Without ``--data`` the folder is temporary. Standard output has only the line
``ready``; standard error has the folder, the user, and the warnings and errors of the log.
"""

import argparse
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import uvloop

from local_node.node import LocalNode
from semq.clock import SystemClock
from semq.config import load
from semq.config.settings import Settings
from semq.errors import Misconfigured, SemqError
from semq.foreign_text import shown
from semq.service.log import set_up
from semq.service.process import EXIT_OK, exit_status, run

# The configuration of a local node needs a hub or partners; this hub is never dialled.
CONFIG = """\
[node]
kind = "local"
id = "broker"
data_dir = "."

[amqp]
port = {port}

[hub]
url = "amqp://127.0.0.1:1"
password = "none"

[log]
level = "warning"
"""

# Text for people: who may log in.
LOGIN = "user guest, password guest, virtual host /, from this machine only"

# Prefixes of the environment variables that the broker reads: limits and the log. FOREIGN_VARIABLES may be set for
# another node; here they would replace ``--port`` and make LOGIN untrue.
OWN_VARIABLES = ("SEMQ_AMQP__", "SEMQ_LOG__")
FOREIGN_VARIABLES = tuple(f"SEMQ_AMQP__{key}" for key in ("HOST", "PORT", "USERS", "TLS", "ALLOW_PLAIN"))


class LoneNode(LocalNode):
    """A local node without a link."""

    def dial(self) -> None:
        """Do nothing: there is no hub."""


def main(argv: list[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT, and return the exit status (``semq.service.process``)."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="./run broker",
        description=f"An AMQP 0-9-1 broker on 127.0.0.1: {LOGIN}.",
    )
    parser.add_argument("--port", type=_port, default=5672, metavar="N", help="0: any free port (default: 5672)")
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder for durable data (default: a temporary one)")
    arguments = parser.parse_args(argv)
    try:
        with ExitStack() as stack:
            folder = arguments.data or Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="semq-broker-", ignore_cleanup_errors=True))
            )
            settings = _settings(folder, arguments.port)
            set_up(settings.log, "broker")
            kept = "" if arguments.data else " (temporary: deleted at the end; --data DIR keeps it)"
            print(f"broker: data in {shown(str(folder.absolute()))}{kept}; {LOGIN}", file=sys.stderr, flush=True)
            uvloop.run(run(LoneNode(settings, SystemClock())))
    except (SemqError, KeyboardInterrupt, OSError) as error:
        return exit_status(error, "broker")
    return EXIT_OK


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) >= 1 << 16:
        raise argparse.ArgumentTypeError("a port is a number in 0..65535")
    return int(text)


def _settings(folder: Path, port: int) -> Settings:
    file = folder / "broker.toml"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(CONFIG.format(port=port))
    except OSError as error:
        raise Misconfigured(f"{folder} cannot be used as data folder: {error.strerror}.") from error
    return load(file, {name: value for name, value in os.environ.items() if _is_own(name)})


def _is_own(variable: str) -> bool:
    return variable.startswith(OWN_VARIABLES) and not variable.upper().startswith(FOREIGN_VARIABLES)


if __name__ == "__main__":
    sys.exit(main())
