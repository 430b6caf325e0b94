"""Export of spans to an OpenTelemetry collector ([telemetry]): the events of an engine's documents leave by HTTP.

| module    | subject                                                              |
|-----------|----------------------------------------------------------------------|
| otlp      | spans as OTLP in JSON, and the answers of a collector                |
| collector | one collector: requests to it                                        |
| export    | the queue of spans: batches, retries, losses, its state for health   |

``semq.engine.document_spans`` makes the spans. ``semq.service.node`` creates the export.
"""
