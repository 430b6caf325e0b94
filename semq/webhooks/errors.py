"""Errors of webhooks, codes 1350-1359: addresses that cannot be reached, requests that are refused."""

from semq.errors import BadInput, Misconfigured, Unavailable


class AddressNotAllowed(Unavailable):
    """The host of the webhook has a loopback, link-local or private address."""

    code = "SEMQ-1350"
    remedy = "Set allow_private = true in [[webhooks]] if the application runs in your own network."


class NoAnswerFromWebhook(Unavailable):
    """The webhook did not answer, or answered that it cannot take the request now."""

    code = "SEMQ-1351"
    remedy = "Look at the application behind the address; documents wait at the node and are posted again."
    is_about_request = False  #: the address works, and fails at this request


class RefusedByWebhook(BadInput):
    """The webhook refused the request; another try would end the same way."""

    code = "SEMQ-1352"
    remedy = "Correct the application or the document, then `semq failed requeue NAME`; or `semq failed remove NAME`."


class WebhookTrustUnreadable(Misconfigured):
    """The authorities of a webhook's address cannot be read."""

    code = "SEMQ-1353"
    remedy = "Correct `trust` in [[webhooks]]: it names a file with certificates in PEM form."
