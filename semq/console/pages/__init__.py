"""The handlers of pages and forms, one module per subject. ``semq.console.routes`` joins their lists ROUTES."""
