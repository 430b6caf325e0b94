"""The interfaces of the web process to its node.

| module         | subject                                                                            |
|----------------|------------------------------------------------------------------------------------|
| operations     | operations of the node by role                                                     |
| audit          | a line for every act                                                               |
| database       | the node's database: views with a time limit, and the tables of the web process    |
| payloads       | payloads of documents, part by part                                                |
| snapshots      | answers that several viewers share                                                 |
| monitoring     | health and figures for orchestrators and Prometheus                                |
"""
