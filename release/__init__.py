"""Packages for strangers, and what proves them.

| module     | contents                                                                     |
|------------|------------------------------------------------------------------------------|
| packages   | wheel and sdist of the sources under version control, reproducible           |
| tour       | a program that tries an installed SEMQ by its commands alone                 |
"""
