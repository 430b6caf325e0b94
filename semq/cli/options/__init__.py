"""Reading of the command line: ``parameters`` reads options and arguments without pydantic, ``times`` ages and
dates.
"""
