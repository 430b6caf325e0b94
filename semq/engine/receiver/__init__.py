"""The receiver's side of the protocol (PROTOCOL.md section 5.3).

| module     | subject                                                              |
|------------|----------------------------------------------------------------------|
| recording  | recording of messages, exactly once, and their Acks (R1, R2)         |
| attempts   | attempts at a message whose rows Postgres refuses                    |
| ledger     | the entries of the messages that have arrived                        |
| reacks     | ReAck, ReAck2, inquiries about recorded messages (R3-R5, R7, R8)     |
| handover   | handover of received documents to the application (R6)               |
| user_queue | documents that wait for one user's consumers: turns, priority        |
| order      | documents with an order key, one at a time                           |
| pieces     | bounds of documents in pieces                                        |
| delivery   | the events of a document at the application                          |
| answers    | answers of applications, and acts of operators on received documents |
| completion | documents that applications finished or parked through SQL           |
"""
