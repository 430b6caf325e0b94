"""``python -m local_node.virtual --config FILE``: run the nodes of many institutions in the foreground."""

import argparse
import os
import sys
from pathlib import Path

import uvloop

from local_node.virtual.server import VirtualServer, read_server
from semq.clock import SystemClock
from semq.errors import SemqError
from semq.service.log import set_up
from semq.service.process import CLIENT_VARIABLE, EXIT_OK, exit_status, log_service_links, run


def main(argv: list[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT; return the exit status (``semq.service.process``)."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False, prog="semq server run", description="Run the nodes of many institutions in the foreground."
    )
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="the server's TOML file")
    arguments = parser.parse_args(argv)
    env = {name: value for name, value in os.environ.items() if name != CLIENT_VARIABLE}
    try:
        settings = read_server(arguments.config)
        set_up(settings.log, settings.server.id)
        log_service_links(os.environ)
        uvloop.run(run(VirtualServer(settings, arguments.config, env, SystemClock())))
    except (SemqError, KeyboardInterrupt, OSError) as error:
        return exit_status(error, "semq")
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
