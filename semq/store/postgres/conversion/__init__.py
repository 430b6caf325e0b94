"""Conversion of rows to values of Postgres and back.

``columns`` lists the columns of the large tables with the fields of their rows. ``rows`` has the functions for the
large tables, which are made from these lists, and functions for small tables. ``binary`` packs values.
"""
