"""The ASGI application: the routes of all parts, static files, and answers to requests without a route."""

from os import PathLike, stat_result
from pathlib import Path

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import semq
from semq.errors import SemqError
from semq.web.api.routes import api_routes
from semq.web.errors import BadRequest, NoSuchPage
from semq.web.pages.visit import visit_for_failure
from semq.web.services import Web, web_of
from semq.web.transport.failures import failure_page, problem
from semq.web.transport.hosts import KnownHosts
from semq.web.transport.response_headers import ResponseHeaders

log = structlog.get_logger("semq.web")
API = "/api/"
CACHED = {"cache-control": "max-age=3600"}  # time for which browsers may cache static files
STYLES = Path(semq.__file__).with_name("look.css")  # of all pages, and of reports


class CachedFiles(StaticFiles):
    """Static files with a header Cache-Control."""

    def file_response(
        self, full_path: str | PathLike[str], stat_result: stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers.update(CACHED)
        return response


def build(web: Web) -> ASGIApp:
    """Return the application of a web process."""
    static: list[BaseRoute] = [
        Mount(f"/{name}", CachedFiles(directory=folder / "static"))
        for name, folder in web.folders.items()
        if (folder / "static").is_dir()
    ]
    static.append(Route("/look.css", _shared_styles))
    app = Starlette(
        routes=[
            *api_routes(web.settings.node.kind, web.operations.table),
            Mount("/static", routes=static),
            *web.routes,
        ],
        exception_handlers={HTTPException: _on_http_exception, SemqError: _on_error},
    )
    app.state.web = web
    app.router.redirect_slashes = False
    # Replaces Starlette's stack: ``FailureGuard`` answers unexpected failures with an error code.
    app.middleware_stack = ExceptionMiddleware(app.router, app.exception_handlers)
    return ResponseHeaders(KnownHosts(FailureGuard(app), web.http), is_tls=web.is_tls)


class FailureGuard:
    """An ASGI application that logs unexpected failures of ``app``, and answers them if no answer has begun.

    Log and answer do not contain the address of the request, which may contain a secret.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False

        async def send_and_note(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        except Exception:
            log.exception("request_failed", method=scope.get("method"), route=_route(scope))
            if has_begun:
                raise
            error = SemqError("The web process failed on this request; its log has the reason.")
            await problem(error)(scope, receive, send)


async def _shared_styles(_request: Request) -> Response:
    return FileResponse(STYLES, headers=CACHED)


def _route(scope: Scope) -> str:
    return str(getattr(scope.get("route"), "path", "") or getattr(scope.get("endpoint"), "__name__", ""))


async def _on_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return await _on_error(request, NoSuchPage())
    response = await _on_error(request, BadRequest(error.detail), error.status_code)
    response.status_code = error.status_code
    response.headers.update(error.headers or {})
    return response


async def _on_error(request: Request, error: Exception, status: int | None = None) -> Response:
    """Answer an error with a page for persons, or a problem document for programs."""
    assert isinstance(error, SemqError)
    wants_page = "text/html" in request.headers.get("accept", "") and not request.url.path.startswith(API)
    if wants_page:
        return failure_page(await visit_for_failure(request, web_of(request)), error)
    return problem(error, status=status)
