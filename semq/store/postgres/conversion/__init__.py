"""Values of rows to values of Postgres and back.

``columns`` lists the columns of the large tables beside the fields of their rows. ``rows`` has the functions for the
large tables, which are made from these lists, and those for the small tables. ``binary`` has the packed form of values.
"""
