"""Errors of webhooks, codes 1350-1359."""

from semq.errors import BadInput, Misconfigured, Unavailable


class AddressNotAllowed(Unavailable):
    """The host of the webhook has a loopback, link-local or private address."""

    code = "SEMQ-1350"
    remedy = "Set allow_private = true in [[webhooks]] if the application runs in your own network."


class NoAnswerFromWebhook(Unavailable):
    """The webhook did not answer, or answered that it cannot process the request now."""

    code = "SEMQ-1351"
    remedy = "Check the application behind the address; documents wait at the node and are posted again."
    is_about_request = False  #: whether the address works and only this request fails


class RefusedByWebhook(BadInput):
    """The webhook refused the request; another attempt would be refused, too."""

    code = "SEMQ-1352"
    remedy = "Correct the application or the document, then `semq failed requeue NAME`; or `semq failed remove NAME`."


class WebhookTrustUnreadable(Misconfigured):
    """The authorities of a webhook's address, or the certificate for it, cannot be used."""

    code = "SEMQ-1353"
    remedy = "Correct `trust`, or `certificate` and `key`, in [[webhooks]]: PEM files, the key without passphrase."
