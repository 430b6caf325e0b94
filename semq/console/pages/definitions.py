"""The page of the hub's definitions: show and export those in force; compare and import proposed ones."""

import difflib
from itertools import islice

from starlette.datastructures import UploadFile
from starlette.responses import Response
from starlette.routing import Route

from semq.access_rights import AccessRole
from semq.console.display import show, translator
from semq.errors import SemqError
from semq.web.errors import BadRequest
from semq.web.pages.visit import Visit, form, page

PROPOSED_MAX = 4 << 20  # bytes of proposed definitions
VERSION_DIGITS = 18  # largest number of digits of a version


async def definitions(visit: Visit) -> Response:
    """Show the definitions in force, and a field for proposed ones."""
    answer = await visit.ask("definitions.export")
    return show(visit, "definitions.html", in_force=answer["version"], document=answer["document"], proposed=None)


async def export(visit: Visit) -> Response:
    """Return the definitions in force as a file."""
    answer = await visit.ask("definitions.export")
    headers = {"content-disposition": f'attachment; filename="definitions-{int(answer["version"])}.toml"'}
    return Response(answer["document"], media_type="application/toml", headers=headers)


async def compare(visit: Visit) -> Response:
    """Show the changes that the proposed definitions would make, or their fault."""
    proposed = await _proposed(visit)
    answer = await visit.ask("definitions.export")
    problem, difference = "", None
    try:
        difference = await visit.ask("definitions.diff", document=proposed)
    except SemqError as error:
        problem = error.advice()
    lines = _difference(str(answer["document"]), proposed)
    return show(
        visit, "definitions.html", in_force=answer["version"], document=answer["document"], proposed=proposed,
        problem=problem, difference=difference, lines=lines,
    )  # fmt: skip


async def import_(visit: Visit) -> Response:
    """Import the compared definitions, unless others were imported since the comparison. Raises BadRequest."""
    _ = translator(visit)
    fields = await visit.form()
    proposed, why = str(fields.get("document", "")), str(fields.get("why", "")).strip()
    if not why:
        return visit.see_other("/definitions", _("Nothing was done: give a reason."))
    expected_version = str(fields.get("expect", "0"))
    if not _is_version(expected_version):
        raise BadRequest("The version that was compared must be a number.", expect=expected_version[:VERSION_DIGITS])
    answer = await visit.ask("definitions.import", document=proposed, why=why, expect=int(expected_version))
    return visit.see_other("/definitions", _("Version %(version)s is in force.") % {"version": answer["version"]})


def _is_version(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= VERSION_DIGITS


async def _proposed(visit: Visit) -> str:
    """Return the proposed definitions, from the file or the field of the form. Raises BadRequest."""
    fields = await visit.form()
    file = fields.get("file")
    if isinstance(file, UploadFile) and file.filename:
        try:
            text = (await file.read(PROPOSED_MAX + 1)).decode()
        except UnicodeDecodeError as error:
            raise BadRequest("The file is not UTF-8.", fault=str(error)) from error
    else:
        text = str(fields.get("document", ""))
    if len(text.encode("utf-8", "surrogatepass")) > PROPOSED_MAX:
        raise BadRequest("The definitions are too large.", bytes_max=PROPOSED_MAX)
    return text.replace("\r\n", "\n")


def _difference(before: str, after: str) -> list[tuple[str, str]]:
    """Return the changed lines with two lines of context: kind (added, removed, same), and text with its sign."""
    kinds = {"+": "added", "-": "removed"}
    compared = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=2)
    lines = islice(compared, 2, None)  # without the names of the files
    return [(kinds.get(line[:1], "same"), line) for line in lines if not line.startswith("@@")]


ROUTES: list[Route] = [
    page("/definitions", definitions),
    page("/definitions/export", export),
    form("/definitions/compare", compare, role=AccessRole.ADMIN),
    form("/definitions/import", import_, role=AccessRole.ADMIN),
]
