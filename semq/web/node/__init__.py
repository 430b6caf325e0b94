"""The interfaces of the web process to its node.

| module         | subject                                                                            |
|----------------|------------------------------------------------------------------------------------|
| operations     | operations of the node for visitors, by role                                       |
| audit          | the audit log, with a line for every act and every shown payload                   |
| database       | the node's database: views with a time limit, and the tables of the web process    |
| payloads       | payloads of documents, in chunks                                                   |
| snapshots      | answers that several visitors share                                                |
| monitoring     | health and figures for orchestrators and Prometheus                                |
"""
