"""The folder of a new node for `semq node init`: a commented configuration that starts as it is, with drawn passwords.

The texts are in the folder ``templates``, one for each kind of node.
"""

import json
import secrets
from collections.abc import Sequence
from pathlib import Path
from string import Template

from msgspec import Struct

from semq.config import load
from semq.errors import SemqError
from semq.installation.errors import FolderHasNode
from semq.store.files import write_safely

TEMPLATES = Path(__file__).with_name("templates")
FILE = "node.toml"  # in the folder of the node
PORT_OF_HUB, PORT_OF_INSTITUTION = 17_670, 17_671
HTTP_OFFSET = 10  # the port of the web process is the AMQP port plus this
LOOPBACK, ANY_ADDRESS = "127.0.0.1", "0.0.0.0"


class NewNode(Struct, frozen=True):
    """The choices for a new node; everything else is in its template."""

    kind: str  #: "local" or "platform"
    node_id: str
    port: int  #: AMQP port
    hub: str = ""  #: HOST:PORT of the hub, for a local node
    name: str = ""  #: host name under which other machines reach a hub; empty: this machine only
    institutions: Sequence[str] = ()  #: ids that a hub knows from the beginning

    def write(self, folder: Path) -> Path:
        """Write the configuration, readable for its owner only, and return its path.

        Raises FolderHasNode; ConfigInvalid if a choice is not valid, after which no file remains.
        """
        file = folder / FILE
        if file.exists():
            raise FolderHasNode(file=str(file))
        write_safely(file, self._text(file).encode(), mode=0o600)
        try:
            load(file, {})
        except SemqError:
            file.unlink()
            raise
        return file

    def _text(self, file: Path) -> str:
        tables = "\n".join(f"[nodes.{json.dumps(one)}]" for one in self.institutions)
        values = {
            "id": self.node_id,
            "host": ANY_ADDRESS if self.name else LOOPBACK,
            "port": self.port,
            "http_port": self.port + HTTP_OFFSET,
            "password": secrets.token_urlsafe(24),
            "hub": f"amqps://{self.hub}",
        }
        literals = {key: json.dumps(value) for key, value in values.items()}
        literals |= {"file": str(file), "name": json.dumps(self.name) if self.name else ""}
        literals["institutions"] = tables or '# [nodes."10008"]'
        return Template((TEMPLATES / f"{self.kind}.toml").read_text("utf-8")).substitute(literals)
