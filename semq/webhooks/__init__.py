"""Webhooks, an interface for applications: received documents and events are posted to an HTTP address.

A document is acknowledged at the node after the address has answered with a status of 200 to 299. Requests are signed
according to Standard Webhooks. A local node starts this program (``python -m semq.webhooks``) if [[webhooks]] is
configured.

| module      | subject                                                                        |
|-------------|--------------------------------------------------------------------------------|
| messages    | documents and events as requests                                               |
| destination | one address: the check of its host, the request, the circuit breaker           |
| deliveries  | documents and events of one webhook, posted until they are answered            |
| process     | the process with all webhooks of one configuration                             |
| errors      | addresses that cannot be reached, requests that are refused                    |
"""
