"""SEMQ: store-and-forward delivery of business documents between institutions."""
