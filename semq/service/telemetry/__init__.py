"""Export of spans about documents to an OpenTelemetry collector, by HTTP ([telemetry]).

| module    | subject                                                              |
|-----------|----------------------------------------------------------------------|
| otlp      | spans as OTLP in JSON, and the answers of a collector                |
| collector | one collector: requests to it                                        |
| export    | the queue of spans: batches, retries, losses, the state for health   |
"""
