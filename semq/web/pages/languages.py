"""The language of pages: that of the cookie, or the one that the browser prefers."""

from starlette.requests import Request

from semq.translations import CHOICES, ENGLISH

COOKIE = "semq_language"


def language_of(request: Request) -> str:
    """Return the language in the cookie; without one, the language in CHOICES that the browser prefers, or English."""
    chosen = request.cookies.get(COOKIE, "")
    if chosen in CHOICES:
        return chosen
    accepted = request.headers.get("accept-language", "")[:200].lower()
    acceptable = [choice for choice in map(_weighed, accepted.split(",")) if choice[0] > 0 and choice[1] in CHOICES]
    return max(acceptable, key=lambda choice: choice[0], default=(0.0, ENGLISH))[1]  # the first of equal weights


def _weighed(part: str) -> tuple[float, str]:
    """Return weight and language of a part of Accept-Language, for instance zh-CN;q=0.8. Weight 0: not acceptable."""
    name, _, parameter = part.partition(";")
    key, _, weight_text = parameter.partition("=")
    try:
        weight = float(weight_text) if key.strip() == "q" else 1.0
    except ValueError:
        weight = 0.0
    return weight, name.strip().partition("-")[0]
