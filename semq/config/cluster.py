"""The section ``[cluster]`` of a hub that runs as several instances."""

from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr

from semq.config.sections import Section, database_url


def _carrier_url(url: SecretStr) -> SecretStr:
    parts = urlsplit(url.get_secret_value())
    if parts.scheme not in ("amqp", "amqps") or not parts.hostname:
        raise ValueError("must be amqp://user:password@host:port/virtual-host, or amqps://")
    if not parts.username or parts.password is None:
        raise ValueError("must contain a user and a password")
    _ = parts.port  # raises ValueError if it is out of range
    return url


class ClusterSection(Section):
    """The broker and the control database that the instances of a hub share."""

    carrier: Annotated[list[Annotated[SecretStr, AfterValidator(_carrier_url)]], Field(min_length=1)]
    """URLs of the AMQP broker between the instances: amqp://user:password@host:port/virtual-host, tried in turn"""
    control: Annotated[SecretStr, AfterValidator(database_url)] | None = None
    """URL of the control database (definitions, tokens, revocations, homes); default: this instance's database"""
    trust: Path | None = None
    """PEM file of the broker's authorities (amqps); relative to the file; default: the system's authorities"""
    allow_plain: bool = False
    """allow amqp:// to another machine: the network can read documents that are not sealed"""
