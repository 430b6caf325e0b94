"""The links of a node to its hub and to partners.

| module            | subject                                                                       |
|-------------------|-------------------------------------------------------------------------------|
| uplink            | a link that this node dials                                                   |
| hub               | the link to the hub, or its place at a node without a hub                     |
| hub_addresses     | the addresses of the hub, tried in turn                                       |
| direct            | direct links with partners, dialled or accepted                               |
| single_request    | one request to the hub or to a partner, over a separate connection            |
| answers           | answers to questions about messages                                           |
| partner_questions | exchange ``semq.ask``, where partners with a direct link ask such questions   |
"""
