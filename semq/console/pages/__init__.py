"""The handlers of the pages, one module per subject. Each has a list ROUTES; ``semq.console.routes`` joins them."""
