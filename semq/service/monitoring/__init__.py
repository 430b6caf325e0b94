"""The state of a node for monitoring systems, derived from ``node.status``.

| module  | subject                                                       |
|---------|---------------------------------------------------------------|
| health  | checks with their verdicts                                    |
| alerts  | a program of the operator, started when a verdict changes     |
| metrics | figures for Prometheus                                        |
"""
