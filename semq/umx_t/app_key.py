"""The AppKey: the name of four parts that an application gives a document."""

from typing import NamedTuple

from semq.umx_t.errors import BadAppKey

PART_MAX = 128  # characters
SHOWN_MAX = 40  # characters of a refused AppKey that its error shows
PART_NAMES = ("domain", "type", "subtype", "key")  # in options and errors


class AppKey(NamedTuple):
    """Domain, data type, subtype and key, all chosen by the application; a part may be empty."""

    domain: str = ""
    type: str = ""
    subtype: str = ""
    key: str = ""

    def __str__(self) -> str:
        return "/".join(self) if any(self) else ""


NO_KEY = AppKey()


def parse_app_key(text: str) -> AppKey:
    """Read ``domain/type/subtype/key``; the key is everything after the third slash. Raises BadAppKey."""
    if not text:
        return NO_KEY
    parts = text.split("/", 3)
    if len(parts) != 4:
        raise BadAppKey(app_key=_safe(text))
    if len(text) <= PART_MAX and text.isprintable():
        return AppKey(*parts)  # each part is shorter than the text, and printable as well
    return check_app_key(AppKey(*parts))


def check_app_key(app_key: AppKey) -> AppKey:
    """Return the AppKey if each part is short and printable and only the key has a slash. Raises BadAppKey."""
    for name, part in zip(PART_NAMES, app_key, strict=True):
        if len(part) > PART_MAX:
            fault = f"has {len(part)} characters, and {PART_MAX} are allowed"
        elif not part.isprintable():
            fault = "contains a character that cannot be shown, such as a line break"
        elif "/" in part and name != "key":
            fault = "contains a slash, which is allowed in the key only"
        else:
            continue
        raise BadAppKey(f"The {name} of the AppKey (@AppKey) {fault}.", value=_safe(part)).with_remedy(
            f"Shorten or correct the {name}; a long or unusual name fits into a header of your own, or into the body."
        )
    return app_key


def _safe(text: str) -> str:
    beginning = text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"
    return beginning if beginning.isprintable() else beginning.encode("unicode_escape").decode("ascii")
