"""Webhooks as an interface for applications: received documents and events are posted to an HTTP address.

A document is acknowledged at the node only after the address has answered 2xx. Requests are signed according to
Standard Webhooks; documents carry the attributes of CloudEvents as headers, events are CloudEvents in JSON. A local
node starts this program (``python -m semq.webhooks``) beside itself where [[webhooks]] is configured.

| module      | subject                                                                        |
|-------------|--------------------------------------------------------------------------------|
| messages    | a document, or an event, as a request                                          |
| destination | one address: which hosts are allowed, one request, the circuit breaker         |
| deliveries  | documents and events, each posted until it is answered, or set aside           |
| process     | all webhooks of one configuration, until a signal                              |
"""
