"""Tests of the parts that both kinds of nodes share as processes."""
