"""Floor 3: what a node does. Send, relay, receive, ask, clean: one synchronous engine over a store and links.

Both engines are put together from the same parts. They have no clock, no sockets and no tasks of their own: the driver
tells them what was heard and that time has passed, they post work to the store, and after each commit they send frames.
So the simulator runs the very same code. In reading order:

| room              | subject                                                                               |
|-------------------|---------------------------------------------------------------------------------------|
| local_engine      | the engine of an institution's node                                                   |
| hub_engine        | the engine of the hub                                                                 |
| core, ports       | what all parts share; what the engine needs of the world around it                    |
| frames, bodies    | records and documents as AMQP content; envelopes in the store                         |
| mail, tracks      | outgoing records, gathered; rows that wait, by source and priority                    |
| uplink            | the session of a local node with the hub                                              |
| sender            | S1-S16: from the submission to the last receipt                                       |
| hub               | H1-H18: forwarding, copies in custody, refusals                                       |
| receiver          | R1-R8: recording, acknowledging, handing over to applications                         |
| time              | inquiry, owed acknowledgements, expiry, cleanup                                       |
| people            | acts of a person; stuck messages                                                      |
| secrecy           | sealing and opening; which statements of others count                                 |
| agreements, partners, violations, misconduct | what partners may do, who they are, what they broke        |
| settings, errors  | the numbers of PROTOCOL.md section 13; codes 1200-1299                                |
"""
