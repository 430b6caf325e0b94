"""Tests of the demo, including the demo itself with processes that are killed."""
