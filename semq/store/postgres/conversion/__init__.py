"""Values of rows to values of Postgres and back.

``columns`` has the columns of the large tables beside the fields of their rows, ``rows`` the functions made from them
and those of the small tables, ``binary`` the packed form of values.
"""
