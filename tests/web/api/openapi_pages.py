"""``python -m tests.web.api.openapi_pages``: write the OpenAPI documents beside ``semq/web/api/description.py``."""

import json
from pathlib import Path

from semq.web.api.description import description
from semq.web.api.routes import endpoints
from semq.web.node.operations import table

FOLDER = Path(__file__).parents[3] / "semq" / "web" / "api"
PAGES = {"local": FOLDER / "openapi.local.json", "platform": FOLDER / "openapi.hub.json"}


def page(kind: str) -> str:
    return json.dumps(description(kind, endpoints(kind, table(kind))), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for kind, file in PAGES.items():
        file.write_text(page(kind), "utf-8")
