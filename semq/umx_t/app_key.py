"""The AppKey: how an application names a document (seed 2.1: domain, data type, subtype, key)."""

from typing import NamedTuple

from semq.umx_t.errors import BadAppKey

PART_MAX = 128  # characters; an AppKey is a name, not a document


class AppKey(NamedTuple):
    """Domain, data type, subtype and key, all chosen by the application; an empty part says nothing."""

    domain: str = ""
    type: str = ""
    subtype: str = ""
    key: str = ""

    def __str__(self) -> str:
        return "/".join(self) if any(self) else ""


NO_KEY = AppKey()


def parse_app_key(text: str) -> AppKey:
    """Read ``domain/type/subtype/key``; the key is all that follows the third slash. Raises BadAppKey."""
    if not text:
        return NO_KEY
    parts = text.split("/", 3)
    if len(parts) != 4:
        raise BadAppKey(app_key=text[:160])
    if len(text) <= PART_MAX and text.isprintable():
        return AppKey(*parts)  # so is each of its parts
    return check_app_key(AppKey(*parts))


def check_app_key(app_key: AppKey) -> AppKey:
    """Refuse parts that are too long or hold characters that cannot be shown or stored. Raises BadAppKey."""
    for part in app_key:
        if len(part) > PART_MAX or not (part.isprintable() or part == ""):
            raise BadAppKey(part=part[:160])
    if any("/" in part for part in app_key[:3]):
        raise BadAppKey("A slash may stand only in the key of an AppKey.", app_key=str(app_key)[:160])
    return app_key
