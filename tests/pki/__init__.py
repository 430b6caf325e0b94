"""Tests of semq/pki; ``people`` has authorities and nodes for all tests that need identities."""
