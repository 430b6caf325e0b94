"""The receiver's side of the protocol (PROTOCOL.md section 5.3).

| module     | subject                                                              |
|------------|----------------------------------------------------------------------|
| recording  | what arrives is recorded exactly once and acknowledged (R1, R2)      |
| ledger     | which messages have arrived                                          |
| reacks     | ReAck, ReAck2 and inquiries about what was recorded (R3-R5, R7, R8)  |
| handover   | received documents reach the application (R6)                        |
| user_queue | what waits for one user's consumers: turns of sources, priority      |
| order      | documents with an order key, one at a time                           |
| pieces     | bounds of documents in pieces                                        |
| delivery   | progress of the application with a document: all its changes         |
| answers    | answers of applications, and acts on documents set aside             |
| completion | documents that applications finished through SQL                     |
"""
