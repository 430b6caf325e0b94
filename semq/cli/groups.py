"""The table of command groups. A package that brings a group of its own adds a row here."""

from collections.abc import Callable
from typing import Any

import typer

from semq.cli import (
    about,
    cert,
    config,
    db,
    definitions,
    doctor,
    errors_list,
    failed,
    held,
    hub,
    msg,
    node,
    proving,
    queue,
    reconcile,
    running,
    stuck,
    worker,
)
from semq.cli import acting as acting  # registers its commands with msg
from semq.cli import enrolling as enrolling  # the same with node

# name | group | what it is for | hidden (an older name)
GROUPS: tuple[tuple[str, typer.Typer, str, bool], ...] = (
    ("msg", msg.group, "Send, receive, look at and act on messages.", False),
    ("queue", queue.group, "How many messages stand where.", False),
    ("stuck", stuck.group, "Messages that do not move, why, and what to do.", False),
    ("failed", failed.group, "What keeps failing: look, requeue, remove.", False),
    ("held", held.group, "At the hub: what is stored for institutions; refuse it, send it again.", False),
    ("node", node.group, "What a node is and how it does.", False),
    ("hub", hub.group, "A hub's authority and the institutions that enrol.", False),
    ("cert", cert.group, "Certificates: look, renew, rotate, revoke.", False),
    ("definitions", definitions.group, "A hub's institutions and what they have agreed.", False),
    ("ledger", proving.group, "What a node has written down, and whether it is still so.", False),
    ("local", running.local, "Run an institution's node.", False),
    ("platform", running.platform, "Run the hub.", False),
    ("config", config.group, "Check and show configurations.", False),
    ("db", db.group, "The tables of a node's database.", False),
    ("database", db.group, "The tables of a node's database.", True),
    ("errors", errors_list.group, "What an error means and what to do.", False),
)
# command | settings of Typer
TOP: tuple[tuple[Callable[..., Any], dict[str, Any]], ...] = (
    (proving.verify, {}),
    (reconcile.reconcile, {"context_settings": reconcile.PASSED_ON}),
    (worker.worker, {}),
    (doctor.doctor, {}),
    (about.version, {}),
    (about.completion, {}),
)
