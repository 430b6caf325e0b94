"""``python -m tests.interop.examples [LANGUAGE …]``: the programs of examples/clients send and receive documents.

Packages of Debian: nodejs npm golang-go golang-github-rabbitmq-amqp091-go-dev php-cli php-amqplib ruby-bunny perl
gcc librabbitmq-dev default-jdk-headless librabbitmq-client-java. A language whose program cannot be built is an error.
The test of the same name runs those that can be built here.
"""

import asyncio
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from urllib.parse import urlsplit

from local_node.node import LocalNode
from tests.interop import amqplib
from tests.interop.institutions import RECEIVER, Institutions, between_institutions, url_of
from tests.web.running import Site, serving

PROGRAMS = Path(__file__).parents[2] / "examples" / "clients"
JARS = "/usr/share/java/amqp-client.jar:/usr/share/java/slf4j-api.jar"
GO_PATH = "/usr/share/gocode"
GO = f"env GO111MODULE=off GOPATH={GO_PATH} GOCACHE={{folder}}/cache go"
GO_LIBRARY = f"{GO_PATH}/src/github.com/rabbitmq/amqp091-go"
PHP_LIBRARY = "/usr/share/php/PhpAmqpLib/autoload.php"
BUNNY = "/usr/share/doc/ruby-bunny"  # where the library is depends on the version of Ruby
DOCUMENTS = 3
BODY = b"<Order><Id>LW-2041</Id></Order>"


class Language(NamedTuple):
    """How the program of a language is built and started, in an empty folder."""

    file: str
    build: str
    run: str
    needs: tuple[str, ...]  #: programs, and files of the client's library
    address: str = "url"  #: url, parts (host, port, user, password), or http

    @property
    def is_present(self) -> bool:
        """Whether this machine has all that the program needs."""
        return all(Path(name).exists() if name[0] == "/" else shutil.which(name) for name in self.needs)


LANGUAGES = {
    "node": Language("document.js", "ln -s {amqplib}/node_modules .", "node document.js", amqplib.PROGRAMS),
    "go": Language("document.go", f"{GO} build document.go", "./document", ("go", GO_LIBRARY)),
    "php": Language("document.php", "php -l document.php", "php document.php", ("php", PHP_LIBRARY)),
    "ruby": Language("document.rb", "ruby -c document.rb", "ruby document.rb", ("ruby", BUNNY)),
    "perl": Language("document.pl", "perl -c document.pl", "perl document.pl", ("perl",), "http"),
    "c": Language("document.c", "gcc -Wall -Werror document.c -lrabbitmq -o document", "./document",
                  ("gcc", "/usr/include/amqp.h"), "parts"),
    "java": Language("Document.java", f"javac -cp {JARS} Document.java", f"java -cp {JARS}:. Document",
                     ("javac", *JARS.split(":"))),
}  # fmt: skip


class NodeOfProgram(NamedTuple):
    """A node, its web process, and a token for it."""

    node: LocalNode
    site: Site
    token: str


class BuiltProgram(NamedTuple):
    """A program in the folder in which it is built."""

    language: Language
    folder: Path

    async def build(self) -> None:
        shutil.copy(PROGRAMS / self.language.file, self.folder)
        places = {"folder": self.folder, "amqplib": amqplib.installed() if "{amqplib}" in self.language.build else ""}
        await lines_of(self.language.build.format(**places).split(), self.folder, "")

    async def run(self, place: NodeOfProgram, mode: str, *words: str) -> list[str]:
        url = url_of(place.node)
        address = {"url": [url], "parts": parts_of(url), "http": [place.site.url]}[self.language.address]
        return await lines_of([*self.language.run.split(), mode, *address, *words], self.folder, place.token)


async def check(institutions: Institutions, names: Sequence[str]) -> None:
    """Let each program send and receive documents. Raises RuntimeError."""
    async with serving(institutions.sender) as site_a, serving(institutions.receiver) as site_b:
        sender = NodeOfProgram(institutions.sender, site_a, await site_a.token("submit"))
        receiver = NodeOfProgram(institutions.receiver, site_b, await site_b.token("receive"))
        for name in names:
            with TemporaryDirectory(prefix=f"{name}-") as folder:
                await exchange(BuiltProgram(LANGUAGES[name], Path(folder)), name, sender, receiver)
            print(f"{name}: {DOCUMENTS} documents sent and received")


async def exchange(program: BuiltProgram, name: str, sender: NodeOfProgram, receiver: NodeOfProgram) -> None:
    await program.build()
    keys = [f"{name}-{number}" for number in range(DOCUMENTS)]
    for key in (*keys, keys[0]):  # a repeat with the same token is not a second document
        expect(await program.run(sender, "send", RECEIVER, key), ["accepted"])
    got = await program.run(receiver, "receive", str(DOCUMENTS))
    expect([line.partition(" ")[2] for line in got], [f"1.10008 trade/order//{key} {len(BODY)}" for key in keys])


def parts_of(url: str) -> list[str]:
    parts = urlsplit(url)
    return [str(parts.hostname), str(parts.port), str(parts.username), str(parts.password)]


async def lines_of(command: Sequence[str], folder: Path, token: str) -> list[str]:
    """Return what a program prints. Raises RuntimeError if it fails."""
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env={**os.environ, "TOKEN": token},
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(120):
        said, complaint = await process.communicate(BODY)
    if process.returncode:
        raise RuntimeError(f"{command}: {complaint.decode()}")
    return said.decode().splitlines()


def expect(seen: list[str], expected: list[str]) -> None:
    if seen != expected:
        raise RuntimeError(f"{expected} was expected, and this came: {seen}")


def main(names: Sequence[str]) -> None:
    if unknown := set(names) - LANGUAGES.keys():
        raise SystemExit(f"no program in {', '.join(sorted(unknown))}; there are {', '.join(LANGUAGES)}")
    between_institutions(lambda institutions: check(institutions, names or list(LANGUAGES)))


if __name__ == "__main__":
    main(sys.argv[1:])
