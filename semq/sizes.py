"""Numbers of bytes as texts."""


def size(number: object) -> str:
    """Return a number of bytes with a unit (1.5 MiB); empty for a value that is not a number."""
    if not isinstance(number, int | float):
        return ""
    for unit in ("B", "KiB", "MiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} GiB"
