"""Samples: ledgers with known defects, for benchmarks, demonstrations and tests.

| module    | subject                       |
|-----------|-------------------------------|
| invention | invented ledgers of any size  |
| defects   | defects planted into extracts |
"""
