"""Floor 3, the engine of a node: synchronous, over a store and links.

The node passes a clock, links and received frames to the engine, so that a simulator can run the same code. In
reading order:

| module or package                            | subject                                                             |
|----------------------------------------------|---------------------------------------------------------------------|
| local_engine                                 | the engine of an institution's node                                 |
| hub_engine                                   | the engine of the hub                                               |
| core, ports                                  | state shared by all parts; interfaces to the engine's surroundings  |
| frames, stored_envelopes                     | records and documents as AMQP content; envelopes in the store       |
| mail, tracks                                 | outgoing records, gathered; rows that wait, by source and priority  |
| uplink, direct                               | sessions with the hub and with partners; rights of partners in them |
| document_spans, latency                      | spans for distributed tracing; histograms of durations              |
| sender                                       | S1-S16: from the submission to the last receipt                     |
| hub                                          | H1-H18: forwarding, copies in custody, refusals                     |
| receiver                                     | R1-R8: recording, acknowledging, handing over to applications       |
| time                                         | inquiry, owed acknowledgements, expiry, cleanup                     |
| people                                       | acts on own messages; stuck messages                                |
| secrecy                                      | sealing and opening; checks of statements of partners               |
| agreements, partners, violations, misconduct | agreements, known partners, violations of the protocol              |
| settings, errors                             | the numbers of PROTOCOL.md section 13; codes 1200-1299              |
"""
