"""Headers of HTTP requests to services of others, in the configuration."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr

_HEADER = re.compile(r"[\x21-\x7e]([\x20-\x7e]{0,8190}[\x21-\x7e])?")


def _header(value: SecretStr) -> SecretStr:
    if not _HEADER.fullmatch(value.get_secret_value()):
        raise ValueError("must be printable ASCII without spaces at its ends")
    return value


HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,64}$")]
HeaderValue = Annotated[SecretStr, AfterValidator(_header)]
