"""Signatures of extracts and repair lists: made with a node's key, verified against the authorities only."""

import asyncio
import io
import json
from base64 import b64encode
from contextlib import redirect_stdout
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from semq.clock import SystemClock
from semq.config import load
from semq.pki.errors import TrustUnreadable
from semq.service.credentials.identity import ring_of
from spark_reconcile import commands
from spark_reconcile.days import parse_date
from spark_reconcile.extracts.manifest import Sign
from spark_reconcile.extracts.signatures import authorities_file, signer_of_config, signer_of_node, verifier
from spark_reconcile.repair.repair_list import HUB, RepairIndex, write_index
from spark_reconcile.sources.inputs import gather
from spark_reconcile.storage import Place
from tests.pki.people import NOW, add, authority, ring
from tests.service.inprocess import HUB_CONFIG, LOCAL_CONFIG, InProcess, linked
from tests.spark_reconcile.office import StandingClock

CONTENT = b"what a node says"
CLOCK = SystemClock()
OURS, FOREIGN = authority(), authority("another")


@pytest.fixture
def trust(tmp_path: Path) -> Path:
    file = tmp_path / "trust.pem"
    file.write_bytes(OURS.pem)
    return file


def config(folder: Path, text: str = LOCAL_CONFIG.format(name="10008", hub=1)) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / "node.toml"
    file.write_text(text)
    return file


def sign_of(folder: Path, by: object = OURS, node: str = "1.10008", days: float = 90, age: int = 0) -> Sign:
    """Enrol a node in ``folder``; return its signing function. ``by`` issued its certificate ``age`` days ago."""
    text = HUB_CONFIG if node.startswith("2.") else LOCAL_CONFIG.format(name=node[2:], hub=1)
    settings = load(config(folder, text), {})
    ring(settings.pki_dir, by, node, at=NOW - timedelta(days=age), days=days)  # type: ignore[arg-type]
    sign = signer_of_node(settings)
    assert sign is not None
    return sign


def test_a_signature_is_valid_for_its_node_and_content_only(tmp_path: Path, trust: Path) -> None:
    signature = sign_of(tmp_path)(CONTENT)
    verify = verifier(trust, CLOCK)
    assert verify("1.10008", CONTENT, signature, None)
    assert not verify("1.56001", CONTENT, signature, None)
    assert not verify(HUB, CONTENT, signature, None)
    assert not verify("1.10008", CONTENT + b".", signature, None)


def test_a_node_of_the_hub_signs_for_the_hub(tmp_path: Path, trust: Path) -> None:
    verify = verifier(trust, CLOCK)
    assert verify(HUB, CONTENT, sign_of(tmp_path, node="2.hub")(CONTENT), None)


def test_foreign_authorities_and_expired_certificates_are_refused(tmp_path: Path, trust: Path) -> None:
    verify = verifier(trust, CLOCK)
    signers = {"foreign": sign_of(tmp_path, FOREIGN), "expired": sign_of(tmp_path / "..", days=10, age=20)}
    for name, sign in signers.items():
        assert not verify("1.10008", CONTENT, sign(CONTENT), None), name


def test_signatures_of_the_former_certificate_are_valid_until_it_ends(tmp_path: Path, trust: Path) -> None:
    before = sign_of(tmp_path, days=10)(CONTENT)
    keys = ring_of(load(config(tmp_path), {}))
    add(keys, OURS)
    renewed = signer_of_config(config(tmp_path))
    assert renewed is not None
    after = renewed(CONTENT)
    assert before.key_id != after.key_id
    clock = StandingClock()
    for day, expected in ((0, [True, True]), (11, [False, True]), (91, [False, False])):
        clock.now = NOW + timedelta(days=day, minutes=1)
        verify = verifier(trust, clock)
        assert [verify("1.10008", CONTENT, signature, None) for signature in (before, after)] == expected


def test_an_extract_stays_valid_after_the_end_of_its_certificate(tmp_path: Path, trust: Path) -> None:
    signature = sign_of(tmp_path, days=10)(CONTENT)
    clock = StandingClock()
    clock.now = NOW + timedelta(days=400)
    for day, is_valid in ((-1, True), (9.9, True), (10.1, False), (401, False)):
        since = int((NOW + timedelta(days=day)).timestamp() * 1000)
        assert verifier(trust, clock)("1.10008", CONTENT, signature, since) is is_valid, day
    # An extract may be older than its certificate, but was signed later.
    long_ago = int((NOW - timedelta(days=30)).timestamp() * 1000)
    for day, is_valid in ((5, True), (-5, False)):
        clock.now = NOW + timedelta(days=day)
        assert verifier(trust, clock)("1.10008", CONTENT, signature, long_ago) is is_valid, day
    other = sign_of(tmp_path / "foreign", FOREIGN, days=10)(CONTENT)
    assert not verifier(trust, clock)("1.10008", CONTENT, other, long_ago)


@pytest.mark.parametrize("field", ["value", "certificate"])
@pytest.mark.parametrize("text", ["", "no base64!", b64encode(b"nonsense").decode()])
def test_an_unreadable_signature_is_not_valid(tmp_path: Path, trust: Path, field: str, text: str) -> None:
    signature = sign_of(tmp_path)(CONTENT)
    assert not verifier(trust, CLOCK)("1.10008", CONTENT, msgspec.structs.replace(signature, **{field: text}), None)


def test_a_node_that_is_not_enrolled_signs_nothing(tmp_path: Path) -> None:
    assert signer_of_config(config(tmp_path)) is None
    assert authorities_file("", config(tmp_path)) is None
    job = config(tmp_path, "[reconcile]\n")
    assert [signer_of_config(job), signer_of_config(None)] == [None, None]
    assert [authorities_file("", job), authorities_file("", None)] == [None, None]
    with pytest.raises(TrustUnreadable):
        verifier(tmp_path / "nothing.pem", CLOCK)


def test_an_enrolled_node_trusts_its_own_authorities(tmp_path: Path) -> None:
    sign = sign_of(tmp_path)
    file = config(tmp_path)
    trusted = authorities_file("", file)
    assert trusted is not None
    assert verifier(trusted, CLOCK)("1.10008", CONTENT, sign(CONTENT), None)
    assert signer_of_config(file) is not None
    assert authorities_file("stated.pem", file) == Path("stated.pem")


def test_an_institution_of_a_virtual_server_has_its_own_key_and_authorities(tmp_path: Path) -> None:
    file = tmp_path / "server.toml"
    file.write_text(
        '[server]\nid = "east"\ndata_dir = "east"\n[hub]\nurl = "amqp://127.0.0.1:1"\n'
        '[institutions."10008".hub]\npassword = "x"\n[institutions."10009".hub]\npassword = "y"\n'
    )
    ring(load(file, {}, "10008").pki_dir, OURS, "1.10008", at=NOW, days=90)
    sign, trusted = signer_of_config(file, "10008"), authorities_file("", file, "10008")
    assert sign is not None
    assert trusted is not None
    assert verifier(trusted, CLOCK)("1.10008", CONTENT, sign(CONTENT), None)
    assert (signer_of_config(file, "10009"), authorities_file("", file, "10009")) == (None, None)
    assert signer_of_config(file) is None


async def call(*arguments: object) -> tuple[int, dict[str, Any]]:
    """Run the command line in another thread; return its exit status and the printed JSON object."""
    output = io.StringIO()
    with redirect_stdout(output):
        code = await asyncio.to_thread(commands.main, [*map(str, arguments), "--json"])
    return code, json.loads(output.getvalue())


def alter(file: Path, **fields: object) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))


async def test_only_signed_extracts_and_repair_lists_are_accepted(inprocess: InProcess, tmp_path: Path) -> None:
    hub = await inprocess.secure_hub()
    node = await inprocess.secure_local("10008", hub)
    await linked(node)
    storage, today = tmp_path / "storage", datetime.now(UTC).date().isoformat()
    node_config, hub_config = Path(str(node.settings.file)), Path(str(hub.settings.file))
    for file in (node_config, hub_config):
        assert (await call("extract", "--config", file, "--business-date", today, "--extracts", storage))[0] == 0
    trusted = authorities_file("", hub_config)
    assert trusted is not None

    def states() -> dict[str, str]:
        sources = gather(Place.at(storage), [parse_date(today)], verifier(trusted, CLOCK))
        return {source.node: source.state for source in sources}

    assert states().keys() == {"1.10008", "2.hub"}
    assert set(states().values()) <= {"COMPLETE", "EMPTY"}
    manifest = storage / f"business_date={today}" / "ledger=1.10008.1.1" / "_manifest.json"
    original = manifest.read_text()
    foreign = msgspec.to_builtins(sign_of(tmp_path / "foreign", FOREIGN)(CONTENT))
    for fields, state in (
        ({"semq_version": "another"}, "BAD_SIGNATURE"),
        ({"signature": foreign}, "BAD_SIGNATURE"),
        ({"signature": None}, "UNSIGNED"),
    ):
        alter(manifest, **fields)
        assert states()["1.10008"] == state
        job = tmp_path / "job.toml"
        job.write_text(f'[reconcile]\nextracts = "storage"\nreports = "reports"\ntrust = "{trusted}"\n')
        code, result = await call("run", "--config", job, "--business-date", today)
        assert (code, result["outcome"]) == (65, "refused")
        assert state in result["error"]
        manifest.write_text(original)

    # Nodes apply neither unsigned lists nor those of a hub under another authority.
    url = f"amqp://guest:guest@127.0.0.1:{node.port}"
    foreign_hub = sign_of(tmp_path / "foreign-hub", FOREIGN, "2.hub")
    for sign, expected, state in (
        (signer_of_config(hub_config), 0, ""), (foreign_hub, 65, "BAD_SIGNATURE"), (None, 65, "UNSIGNED"),
    ):  # fmt: skip
        write_index(Place.at(tmp_path / "repair"), RepairIndex(today, "r", "f", {}), sign)
        code, result = await call(
            "apply", "--config", node_config, "--node", url, "--list", tmp_path / "repair", "--yes"
        )
        assert code == expected
        assert state in result.get("error", "")
