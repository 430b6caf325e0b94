"""Encryption of stored bodies (``Locking``): the writer encrypts and decrypts them, other readers decrypt them.

With a master key, the payloads in tb_0031_body, tb_0030_body and tb_0031_piece and those of scheduled documents are
encrypted, each bound to its row. Envelopes, the queues of the broker and submissions by SQL are not encrypted. A body
that was written before there was a master key stays as it is. Applications that receive by SQL get ciphertext.
"""

import logging
from typing import Any

import psycopg
from msgspec.structs import replace

from semq.seal.errors import VaultLocked
from semq.seal.vault import Vault
from semq.store.postgres.changes import Batch, NewRows
from semq.store.postgres.conversion.binary import int4, int8
from semq.store.rows import Stored, Submitted
from semq.store.unit import SubmittedRows, Unit

log = logging.getLogger(__name__)
TABLES = ("tb_0031_body", "tb_0030_body")
SUBMITTED = "tb_0031_submit"
PIECE = "tb_0031_piece"
UNREADABLE = b"\xc1"  # an envelope that is not JSON
DAMAGED = Stored(b"", b"")  # a body that cannot be decrypted; no valid envelope is empty
# A master key is the right one if it decrypts PROOF, which is stored encrypted in semq_meta.
PROOF, PROOF_CONTEXT = b"semq vault", b"semq_meta"


class Locking:
    """Encryption and decryption of the bodies of a store; without a vault, nothing is changed."""

    def __init__(self, vault: Vault | None) -> None:
        self.vault = vault

    def unlock(self, table: str, key: int, payload: bytes) -> bytes:
        """Return the payload of a row, decrypted if necessary. Raises VaultLocked if it was moved or altered."""
        if self.vault is None or not self.vault.is_locked(payload):
            return payload
        try:
            return self.vault.unlock(payload, _context(table, int8(key)))
        except VaultLocked as error:
            raise VaultLocked(table=table, key=key) from error

    def unlock_piece(self, document: int, number: int, payload: bytes) -> bytes:
        """Return the payload of a row of tb_0031_piece. Raises VaultLocked."""
        if self.vault is None or not self.vault.is_locked(payload):
            return payload
        try:
            return self.vault.unlock(payload, _context(PIECE, int8(document) + int4(number)))
        except VaultLocked as error:
            raise VaultLocked(table=PIECE, key=document) from error

    def unlock_unit(self, unit: Unit) -> None:
        """Decrypt all bodies that a unit has loaded.

        A body that cannot be decrypted becomes DAMAGED. A scheduled document gets the envelope UNREADABLE instead.
        """
        if self.vault is not None:
            for query, rows in unit.found.items():
                if isinstance(query, SubmittedRows):
                    unit.found[query] = [self._unlock_submission(row) for row in rows]
            for table, bodies in zip(TABLES, (unit.bodies, unit.pending_bodies), strict=True):
                for key, body in bodies.items():
                    try:
                        bodies[key] = Stored(body.envelope, self.unlock(table, key, body.payload))
                    except VaultLocked as error:
                        log.error("%s", error.advice())
                        bodies[key] = DAMAGED

    def _unlock_submission(self, row: Submitted) -> Submitted:
        if not row.envelope:
            return row
        try:
            return replace(row, payload=self.unlock(SUBMITTED, row.row_id, row.payload))
        except VaultLocked as error:
            log.error("%s", error.advice())
            return replace(row, payload=b"", envelope=UNREADABLE)

    def lock(self, batch: Batch, rows: NewRows) -> Batch:
        """Encrypt all bodies that a unit writes: change ``rows`` in place, and return the changed ``batch``."""
        if self.vault is None:
            return batch
        for table in TABLES:
            if rows.get(table):
                rows[table] = [
                    (key, envelope, self._lock_payload(table, int8(key), payload))
                    for key, envelope, payload in rows[table]
                ]
        return [self._lock_statement(name, params) for name, params in batch]

    def _lock_statement(self, name: str, params: Any) -> Any:
        if name == "replace_body":
            return name, [params[0], params[1], self._lock_payload("tb_0031_body", params[0], params[2])]
        if name == "new_submission":
            return name, [*params[:2], self._lock_payload(SUBMITTED, params[0], params[2]), *params[3:]]
        if name in ("NewPiece", "NoticeDue"):
            return name, [*params[:2], self._lock_payload(PIECE, bytes(params[0]) + bytes(params[1]), params[2])]
        return name, params

    def _lock_payload(self, table: str, key: bytes, payload: bytes) -> bytes:
        if self.vault is None or not payload:
            return payload
        return self.vault.lock(bytes(payload), _context(table, key))


def _context(table: str, key: bytes) -> bytes:
    return table.encode() + key


async def verify_master_key(connection: psycopg.AsyncConnection, vault: Vault | None) -> None:
    """Check that the store was encrypted with the key of ``vault``.

    If the store has had no key so far, store PROOF encrypted with this one. Raises VaultLocked for another key, or
    without a key if the store has been encrypted.
    """
    row = await (await connection.execute("SELECT vault FROM semq_meta")).fetchone()
    recorded = None if row is None or row[0] is None else bytes(row[0])
    if recorded is not None and vault is None:
        raise VaultLocked("Bodies of this store are encrypted, but no master key is configured.")
    if vault is not None and recorded is None:
        await connection.execute("UPDATE semq_meta SET vault = %s", (vault.lock(PROOF, PROOF_CONTEXT),))
    elif vault is not None and recorded is not None:
        vault.unlock(recorded, PROOF_CONTEXT)
