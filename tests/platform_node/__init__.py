"""Tests of the hub and its administration."""
