"""The login of one connection: decisions about the user and the virtual host.

The reply to a failed login is delayed by the pause that the specification requires (4.10.2), and does not show whether
the user or the password was wrong.
"""

import logging

from semq.amqp import events as e
from semq.amqp import sasl
from semq.amqp.errors import AmqpError, InternalError
from semq.amqp.sasl import Credentials
from semq.amqp.wire import Table
from semq.broker import refusals
from semq.broker.ports import LoginSession

log = logging.getLogger(__name__)


class Login:
    """The decisions about the login of a connection, and about renewed credentials."""

    def __init__(self, session: LoginSession) -> None:
        self._session = session
        self._mechanism = ""
        self.client_properties: Table = {}

    def process_offer(self, event: e.LoginOffered) -> None:
        self._mechanism = event.mechanism
        self.client_properties = event.client_properties
        try:
            credentials = sasl.read(event.mechanism, event.response)
        except AmqpError as error:
            self._refuse(error.at(10, 11))
            return
        self._session.server.authenticate(
            self._session.link.peer, event.mechanism, credentials, self._finish, self._fail
        )

    def _finish(self, user: str | None) -> None:
        session = self._session
        if session.is_ending:
            return
        if user is None:
            session.link.hold_back()  # the authenticator has logged the reason
            session.machine.refuse_login(refusals.login_refused(self._mechanism).text)
            session.is_ending = True
        else:
            session.user = user
            session.machine.accept_login()
        session.request_write()

    def _fail(self) -> None:
        if not self._session.is_ending:
            error = InternalError("the login could not be checked; the log of the server has the reason")
            self._session.close(error.at(10, 11))

    def resume(self, event: e.LoginOffered, credentials: Credentials, vhost: str) -> None:
        """Check the credentials of a connection to a ``shared_port``, then process connection.open for ``vhost``."""
        session = self._session
        self._mechanism, self.client_properties = event.mechanism, event.client_properties

        def finish(user: str | None) -> None:
            if session.is_ending:
                return
            if user is None:
                session.link.hold_back()
                session.close(refusals.login_refused(event.mechanism).at(10, 40))
            else:
                session.user = user
                self.process_open(e.OpenRequested(vhost))

        session.server.authenticate(session.link.peer, event.mechanism, credentials, finish, self._fail)

    def process_open(self, event: e.OpenRequested) -> None:
        """Process connection.open: the virtual host must exist, and the user must have permissions in it."""
        session, name = self._session, event.virtual_host
        vhost = session.server.vhosts.get(name)
        permissions = session.server.authenticator.permissions(session.user, name)
        if vhost is None:
            self._refuse(refusals.no_vhost(name).at(10, 40))
        elif permissions is None:
            self._refuse(refusals.vhost_forbidden(name, session.user).at(10, 40))
        else:
            session.open(vhost, permissions)

    def _refuse(self, error: AmqpError) -> None:
        log.warning("refused %s from %s: %s", self._session.user or "an unknown user", self._session.link.peer, error)
        self._session.link.hold_back()
        self._session.close(error)

    def accept_secret_offer(self, _event: e.SecretOffered) -> None:
        """Accept connection.update-secret without checking it, as RabbitMQ does with secrets that do not expire."""
        self._session.machine.accept_secret()
        self._session.request_write()
