"""One import, from opening the source and the journal to closing them."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from semq.app import Client
from semq.errors import BadInput
from semq.legacy.journal import ImportJournal
from semq.legacy.mapping import read_mapping
from semq.legacy.report import ImportReport
from semq.legacy.source import open_source
from semq.legacy.transfer import Transfer
from semq.umx_t.address import NodeType, parse_address


class NotAnInstitution(BadInput):
    """Rows are imported at the node of an institution, not at the hub."""

    code = "SEMQ-2508"
    remedy = "Import at the node of the institution that sent the messages, also those that an older hub has stored."


async def run_import(
    client: Client,
    source: str,
    mapping: Path | None = None,
    *,
    dry_run: bool = False,
    journal: Path | None = None,
    rejects: Path | None = None,
    resend_unanswered: bool = False,
    progress: Callable[[str], None] = lambda text: None,
) -> ImportReport:
    """Import all rows through a connected client, or only count the rows in a dry run.

    ``mapping``: a file with changes to the default mapping. ``journal`` None: a file in the current directory; a dry
    run creates no journal. ``rejects``: a CSV file for the rows that were not imported. ``resend_unanswered``: also
    send messages about which the receiver gave no answer.

    Raises BadMapping, NotAnInstitution, JournalUnusable, Unavailable, and the errors of ``open_source``. If the node or
    the source stops answering during the import, ``ImportReport.stopped`` has the reason.
    """
    tables = read_mapping(mapping)
    own = parse_address(str((await client.request("node.status"))["node"]))
    if own.type != NodeType.LOCAL:
        raise NotAnInstitution(node=str(own))
    old = await asyncio.to_thread(open_source, source, tables)
    try:
        file = journal or Path(f"semq-import-{own.id}.journal")
        opened_journal = ImportJournal(file if file.exists() or not dry_run else None)
        try:
            report = ImportReport(old.name, str(own), dry_run)
            await Transfer(
                client, old, tables, opened_journal, report,
                own=own, resend_unanswered=resend_unanswered, rejects=rejects, progress=progress,
            ).run()  # fmt: skip
            return report
        finally:
            opened_journal.close()
    finally:
        await asyncio.to_thread(old.close)
