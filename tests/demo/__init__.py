"""Tests of the demo, at last the demo itself with processes that are killed."""
