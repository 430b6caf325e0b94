"""The sender's side of the protocol (PROTOCOL.md section 5.1), in the order of a document's life.

| module         | subject                                                                |
|----------------|------------------------------------------------------------------------|
| submission     | S1: documents become rows of tb_0031                                   |
| positions      | places in a stream                                                     |
| lanes          | rows on their way out, one lane per destination                        |
| sender         | claims rows for the link, asks about them                              |
| receipts       | receipts, answers and questions about own messages                     |
| statements     | which of them count: who may say what of which row                     |
| outbound       | the row of a message: the one door for all news of it                  |
| deeds          | what is done for each deed of the sender's grids                       |
| refused_copies | refusals by an operator of the hub (S15)                               |
| disbelief      | copies that their receiver cannot believe any more (S16)               |
| resealing      | documents refused for want of a key, sealed and sent again             |
"""
