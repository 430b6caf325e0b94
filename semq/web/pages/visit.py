"""A visit: one request of a person for a page; and the routes of pages.

    ROUTES = [page("/", overview), form("/failed/requeue", requeue, role=AccessRole.OPERATOR)]

A route finds the visitor, checks the token of a form, the rate and the role, calls the handler, and turns errors into
pages. ``api.endpoint`` does the same for programs.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import quote, unquote, unquote_to_bytes, urlencode

import structlog
from sqlalchemy import Connection
from starlette.datastructures import FormData, QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from semq import __version__, translations
from semq.access_rights import AccessRole
from semq.app.errors import IncompleteAnswer
from semq.errors import SemqError
from semq.foreign_text import REPLACEMENT, in_page, shown
from semq.transport.peer import network_of
from semq.web.access import csrf
from semq.web.access.sessions import LINK_USER
from semq.web.access.visitor import Visitor, peer_of
from semq.web.api.authentication import SAFE, authenticate
from semq.web.errors import BadRequest, NotSignedIn, RoleMissing
from semq.web.pages.error_words import exact_text, in_words, words_of
from semq.web.pages.languages import language_of
from semq.web.pages.templates import token_field
from semq.web.services import Web, web_of
from semq.web.transport import event_stream
from semq.web.transport.bodies import bounded
from semq.web.transport.failures import failure_page

log = structlog.get_logger("semq.web")

NOTICE = "semq_notice"  # cookie with a notice for the next page
NOTICE_MAX = 500  # characters
FIELDS_MAX, FILES_MAX, PART_MAX = 2000, 4, 8 << 20  # fields and files of a form, bytes of one field
DIGITS_MAX = 18  # of a number in a query, so that it fits into 64 bits
FORM_MAX, STRANGER_FORM_MAX = 16 << 20, 64 << 10  # bytes of a form; the second for visitors who are not signed in
P = ParamSpec("P")
T = TypeVar("T")


class Visit:
    """One request for a page."""

    def __init__(self, request: Request, web: Web, visitor: Visitor | None, secret: str) -> None:
        self.request = request
        self.web = web
        self.language = language_of(request)
        translations.use(self.language)  # of all texts of this request, also those of the reports
        self._visitor = visitor
        self._secret = secret
        self.unreached: dict[str, object] = {}  #: stores of a hub whose part is missing in answers, and the reasons
        self._form: FormData | None = None

    @property
    def visitor(self) -> Visitor:
        """The signed-in visitor. Raises NotSignedIn if there is none."""
        if self._visitor is None:
            raise NotSignedIn
        return self._visitor

    @property
    def peer(self) -> str:
        """The address of the client."""
        return peer_of(self.request)

    @property
    def is_signed_in(self) -> bool:
        return self._visitor is not None

    @property
    def query(self) -> QueryParams:
        return self.request.query_params

    def number(self, name: str) -> int:
        """Return a number of the query, 0 without it. Raises BadRequest."""
        text = self.query.get(name) or "0"
        if not (text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX):
            raise BadRequest(f"{name} must be an integer of 0 or more.")
        return int(text)

    @property
    def secret(self) -> str:
        """The secret of the session; before the sign-in, the secret of the forms."""
        return self._secret

    async def form(self) -> FormData:
        """Return the fields of the form. Raises BadRequest, BodyTooLarge, BodiesFull."""
        if self._form is None:
            at_most = FORM_MAX if self.is_signed_in else STRANGER_FORM_MAX
            owner = self.visitor.key if self.is_signed_in else network_of(self.peer)
            try:
                async with self.web.memory.reserved(0, owner) as space:
                    self.request = bounded(self.request, at_most, space)
                    self._form = await self.request.form(
                        max_files=FILES_MAX, max_fields=FIELDS_MAX, max_part_size=PART_MAX
                    )
            except SemqError:
                raise
            except Exception as error:
                raise BadRequest("The form cannot be read.", fault=str(error)) from error
        return self._form

    async def ask(self, operation: str, **arguments: object) -> Any:
        """Run an operation of the node; arguments that are None are left out. Raises the errors of ``Operations.ask``.

        If stores of a hub are missing in the answer, the page names them (``unreached``).
        """
        present = {name: value for name, value in arguments.items() if value is not None}
        try:
            return await self.web.operations.ask(self.visitor, operation, present)
        except IncompleteAnswer as error:
            if error.result is None:
                raise
            self.unreached |= error.facts
            return error.result

    async def read(self, view: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a read-only query on the node's database, as ``Database.read`` does."""
        return await self.web.database.read(view, *args, **kwargs)

    async def note(self, act: str, arguments: Mapping[str, object] | None = None, **more: Any) -> int:
        """Write a line of the audit log; return its number."""
        return await self.web.audit.note(self.visitor.name, self.visitor.via, self.visitor.peer, act, arguments, **more)

    def may(self, right: str) -> bool:
        """Whether a visitor is signed in and has a role or scope."""
        return self._visitor is not None and self._visitor.may(right)

    def translator(self) -> Callable[[str], str]:
        """Return a function that translates into the language of this visit."""
        return self.web.languages.gettext

    def render(self, template: str, http_status: int = 200, **context: object) -> Response:
        """Return a page made from a template."""
        translated, token = self.translator(), csrf.token_of(self._secret)
        settings = self.web.settings
        common: dict[str, object] = {
            "visitor": self._visitor, "may": self.may, "csrf": token, "csrf_field": lambda: token_field(token),
            "node": str(settings.address), "kind": settings.node.kind, "path": self.request.url.path,
            "language": self.language, "languages": translations.CHOICES, "notice": self._notice(),
            "query": self.query, "person": person_in(translated), "version": __version__,
            "translated": translated, "unreached": self.unreached,
            "in_words": partial(in_words, translated), "words_of": partial(words_of, translated),
            "exact_text": partial(exact_text, translated),
        }  # fmt: skip
        text = self.web.templates.get_template(template).render(common | context)
        response = HTMLResponse(in_page(text), http_status)
        if NOTICE in self.request.cookies:
            response.delete_cookie(NOTICE, path="/", samesite="strict", httponly=True)
        return response

    def see_other(self, path: str, notice: str = "") -> Response:
        """Redirect the browser to another page, which shows a notice once."""
        response = RedirectResponse(path, 303)
        if notice:
            text = quote(notice[:NOTICE_MAX], safe="")
            response.set_cookie(NOTICE, text, max_age=60, path="/", httponly=True, samesite="strict")
        return response

    def stream(self, events: AsyncIterator[str]) -> Response:
        """Return a stream of events, which ends with the session. Raises TooManyRequests."""
        return event_stream.stream(self._while_signed_in(events), self.web.streams.enter(self.visitor.key))

    async def _while_signed_in(self, events: AsyncIterator[str]) -> AsyncIterator[str]:
        async for event in events:
            if await self.web.sessions.visitor(self._secret, "") is None:
                return
            yield event

    def _notice(self) -> str:
        return unquote(self.request.cookies.get(NOTICE, ""))[:NOTICE_MAX]


def person_in(_: Callable[[str], str]) -> Callable[[str], str]:
    """Return a function that returns the name of a person as pages show it."""
    return lambda name: _(LINK_USER) if name.partition(" via ")[0] == LINK_USER else name


Handler = Callable[[Visit], Awaitable[Response]]


def page(path: str, handler: Handler, *, role: AccessRole | None = AccessRole.VIEWER, name: str | None = None) -> Route:
    """Return the route of a page. ``role`` None: no sign-in is needed; ``name`` None: the name of the handler."""
    return Route(path, _endpoint(handler, role), methods=["GET"], name=name or handler.__name__)


def form(path: str, handler: Handler, *, role: AccessRole | None = AccessRole.OPERATOR) -> Route:
    """Return the route of a posted form; ``role``: as in ``page``."""
    return Route(path, _endpoint(handler, role, act=path), methods=["POST"], name=handler.__name__)


def _endpoint(handler: Handler, role: AccessRole | None, act: str = "") -> Callable[[Request], Awaitable[Response]]:
    """Return the frame around a handler; ``act``: name of a form in the audit log, empty for pages."""

    async def respond(request: Request) -> Response:
        web = web_of(request)
        visit = Visit(request, web, None, web.sessions.form_secret_of(request))
        try:
            visit = await _visit_of(request, web)
            if act:
                await _check_form(visit)
            if role is not None:
                web.rates.count(visit.visitor.key)
                if not visit.may(role):
                    if act:
                        await visit.note(act, outcome="refused", detail=RoleMissing.code)
                    raise visit.visitor.lacks(role)
                _check_query(visit.request)
            return await handler(visit)
        except NotSignedIn:
            return _to_sign_in(visit)
        except SemqError as error:
            return failure_page(visit, error)
        finally:
            await visit.request.close()

    return respond


async def _visit_of(request: Request, web: Web) -> Visit:
    if is_of_program(request):
        return Visit(request, web, await authenticate(request, web), web.sessions.form_secret_of(request))
    secret = web.sessions.secret_of(request)
    visitor = await web.sessions.visitor(secret, peer_of(request)) if secret else None
    return Visit(request, web, visitor, secret if visitor else web.sessions.form_secret_of(request))


def is_of_program(request: Request) -> bool:
    """Whether a request for a page or its file has a token or password in a header; forms need a session."""
    return request.method in SAFE and "authorization" in request.headers


async def visit_for_failure(request: Request, web: Web) -> Visit:
    """Return the visit of a request for which there is no page; without its visitor, if sessions cannot be read."""
    try:
        return await _visit_of(request, web)
    except SemqError:
        return Visit(request, web, None, "")


async def _check_form(visit: Visit) -> None:
    csrf.check_origin(visit.request)
    token = visit.request.headers.get(csrf.HEADER)
    if token is None:
        token = str((await visit.form()).get(csrf.FIELD, ""))
    csrf.check_token(visit.secret, token)


def _check_query(request: Request) -> None:
    """Raise BadRequest for a query that no link and no form of the pages makes."""
    query = request.query_params
    if len(query) < len(query.multi_items()):
        raise BadRequest("A parameter of the address occurs twice.")
    is_own = REPLACEMENT.encode() in unquote_to_bytes(request.scope["query_string"])  # keys may have U+FFFD
    for name, value in query.items():
        text = value.strip()
        if text != shown(text) or (REPLACEMENT in text and not is_own):
            raise BadRequest(
                "A parameter of the address is too long, or has characters that cannot be shown.", name=name[:40]
            )


def _to_sign_in(visit: Visit) -> Response:
    url = visit.request.url
    if (
        is_of_program(visit.request)
        or visit.request.method != "GET"
        or "text/event-stream" in visit.request.headers.get("accept", "")
    ):
        return failure_page(visit, NotSignedIn())
    requested = url.path + (f"?{url.query}" if url.query else "")
    return RedirectResponse("/sign-in" + ("" if requested == "/" else "?" + urlencode({"next": requested})), 303)
