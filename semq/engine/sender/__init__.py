"""The sender's side of the protocol (PROTOCOL.md section 5.1), in the order of a document's life.

| module          | subject                                                                |
|-----------------|------------------------------------------------------------------------|
| submission      | S1: documents become rows of tb_0031                                   |
| admission       | uncommitted documents; what can be sent at once to one destination     |
| accepted_lines  | the detail of the ledger line about a new row                          |
| groups          | documents to a group: a message for each member                        |
| scheduling      | documents that wait for their time (@NotBefore)                        |
| positions       | positions in a stream                                                  |
| lanes           | rows on their way out, one lane per destination                        |
| sender          | claims rows for the link, sends inquiries about them                   |
| receipts        | receipts, answers and inquiries about own messages                     |
| statements      | checks whether a node may make a statement about a row                 |
| outbound        | the row of a message: one function for all its events                  |
| deeds           | actions for the deeds of the sender's grids                            |
| endings         | refusals by an operator of the hub (S15); notices of documents given up |
| rejected_proofs | sent copies whose signature their receiver does not accept (S16)       |
| repetition      | documents that ended without delivery, submitted again for an operator |
| resealing       | documents refused because of a key, sent again as new messages         |
"""
