"""Definitions of the hub: the document in force, its export, and the difference that another one would make before it
is imported.
"""

import difflib
from typing import Any

from starlette.datastructures import UploadFile
from starlette.responses import Response

from semq.access_rights import AccessRole
from semq.console.display import show, translator
from semq.errors import SemqError
from semq.web.errors import BadRequest
from semq.web.pages.visit import Visit, form, page

DOCUMENT_MAX = 4 << 20
VERSION_DIGITS = 18


async def definitions(visit: Visit) -> Response:
    """The document in force, and a field for another one."""
    answer = await visit.ask("definitions.export")
    return show(visit, "definitions.html", version=answer["version"], document=answer["document"], proposed=None)


async def export(visit: Visit) -> Response:
    """The document in force as a file."""
    answer = await visit.ask("definitions.export")
    headers = {"content-disposition": f'attachment; filename="definitions-{int(answer["version"])}.toml"'}
    return Response(answer["document"], media_type="application/toml", headers=headers)


async def compare(visit: Visit) -> Response:
    """Show the changes that the proposed document would make. Nothing is changed."""
    _ = translator(visit)
    proposed = await _document(visit)
    answer = await visit.ask("definitions.export")
    problem, difference = "", None
    try:
        difference = await visit.ask("definitions.diff", document=proposed)
    except SemqError as error:
        if not error.code.startswith("SEMQ-"):
            raise
        problem = str(error)
    lines = _lines(str(answer["document"]), proposed)
    return show(
        visit, "definitions.html", version=answer["version"], document=answer["document"], proposed=proposed,
        problem=problem, difference=difference, lines=lines,
    )  # fmt: skip


async def import_(visit: Visit) -> Response:
    """Put the compared document in force, if nobody has imported another one meanwhile."""
    _ = translator(visit)
    given = await visit.form()
    proposed, why = str(given.get("document", "")), str(given.get("why", "")).strip()
    if not why:
        return visit.see_other("/definitions", _("Nothing was done: give a reason."))
    expect = str(given.get("expect", "0"))
    if not (expect.isascii() and expect.isdigit() and len(expect) <= VERSION_DIGITS):
        raise BadRequest("The version that was compared is a number.", expect=expect[:VERSION_DIGITS])
    answer = await visit.ask("definitions.import", document=proposed, why=why, expect=int(expect))
    return visit.see_other("/definitions", _("Version %(version)s is in force.") % {"version": answer["version"]})


async def _document(visit: Visit) -> str:
    given = await visit.form()
    file = given.get("file")
    if isinstance(file, UploadFile) and file.filename:
        return (await file.read(DOCUMENT_MAX)).decode("utf-8", "replace")
    return str(given.get("document", ""))[:DOCUMENT_MAX].replace("\r\n", "\n")


def _lines(before: str, after: str) -> list[tuple[str, str]]:
    """Return the difference as kinds and lines: added, removed, same."""
    kinds = {"+": "added", "-": "removed"}
    differences = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=2)
    return [(kinds.get(line[:1], "same"), line) for line in differences if not line.startswith(("+++", "---", "@@"))]


ROUTES: list[Any] = [
    page("/definitions", definitions),
    page("/definitions/export", export),
    form("/definitions/compare", compare, role=AccessRole.ADMIN),
    form("/definitions/import", import_, role=AccessRole.ADMIN),
]
