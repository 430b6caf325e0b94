"""Reading of what is typed: ``parameters`` reads options and arguments without pydantic, ``times`` ages and dates."""
