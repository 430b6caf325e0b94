"""Tests of the command line, as scripts use it: exit statuses, JSON on standard output, one line on standard error."""
