"""An application behind a webhook: an HTTP server."""

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(slots=True)
class ReceivedRequest:
    """A request at the application."""

    path: str
    headers: dict[str, str]
    body: bytes


AnswerFunction = Callable[[ReceivedRequest], tuple[int, dict[str, str]]]  #: returns status and headers; may wait first


@dataclass
class Hook:
    """The received requests, and the function that answers them."""

    port: int = 0
    answer: AnswerFunction = lambda request: (204, {})
    received: list[ReceivedRequest] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"


@contextmanager
def serving(tls: ssl.SSLContext | None = None) -> Iterator[Hook]:
    """Run the server, optionally with TLS."""
    hook = Hook()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = ReceivedRequest(self.path, headers, body)
            hook.received.append(request)
            status, more_headers = hook.answer(request)
            self.send_response(status)
            for name, value in more_headers.items():
                self.send_header(name, value)
            text = f"answer {status}".encode() if status != 204 else b""
            self.send_header("content-length", str(len(text)))
            with suppress(BrokenPipeError):  # the client has disconnected
                self.end_headers()
                self.wfile.write(text)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        server.block_on_close = False
        hook.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield hook
        finally:
            server.shutdown()
