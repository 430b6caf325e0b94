"""The upload of a large body from an application into the store: each piece is committed as it arrives.

The document gets its LK0 before the first byte, because the pieces are stored under it. The manifest is committed after
all pieces. The pieces are removed if the document is not accepted: incomplete, refused, or submitted before.
"""

from collections.abc import Callable
from hashlib import sha256
from weakref import WeakValueDictionary

from msgspec.structs import replace

from semq.broker.services import ArrivingDocument
from semq.engine.core import Core
from semq.engine.local_engine import LocalEngine
from semq.engine.ports import Accepted, Submission
from semq.engine.time.cleanup import PIECES_BYTES
from semq.errors import BadInput, SemqError, Unavailable, semq_error
from semq.service.engine_handle import EngineHandle
from semq.store.rows import NewPiece, PiecesGone
from semq.store.work import COMMITTED, NO_NEEDS, Steps, work
from semq.umx_t.pieces import PIECE_BYTES, PiecesManifest, digest_of

PORTION = PIECES_BYTES // PIECE_BYTES  # pieces that one commit deletes at most
# Reading from a client stops while its body has more uncommitted bytes than this; it continues at half of this.
UNCOMMITTED_MAX = 512 * 1024


class Upload(ArrivingDocument):
    """The upload of one body."""

    def __init__(
        self,
        engine: EngineHandle[LocalEngine],
        size: int,
        ended: Callable[["Upload", bool], None],
        pause: Callable[[bool], None],
        fault: Exception | None = None,
    ) -> None:
        """``ended`` is called with True when the document is committed, with False if the upload ends otherwise.

        ``pause`` stops reading from the client, or continues it. With ``fault`` the body is dropped, and the
        document is refused when the body is complete.
        """
        super().__init__(size)
        self._engine = engine
        self._core = engine.current.core  # all pieces of a body must be in one store
        self.name = self._core.new_lk0()
        self._ended = ended
        self._pause = pause
        self._fault = fault
        self._not_stored: dict[int, SemqError] = {}  # the error of a piece, for the manifest posted after it
        self._rest = bytearray()
        self._piece_bytes = min(PIECE_BYTES, self._core.settings.max_document_bytes)
        self._digests: list[bytes] = []
        self._hash = sha256()
        self._piece_count = 0
        self._uncommitted = 0

    @property
    def document_number(self) -> int:
        return self.name.object_id

    @property
    def digest(self) -> bytes:
        return self._hash.digest()

    def add(self, data: bytes) -> None:
        if self._fault is not None:
            return
        self._hash.update(data)
        self._rest += data
        while len(self._rest) >= self._piece_bytes:
            self._store_piece(bytes(self._rest[: self._piece_bytes]))
            del self._rest[: self._piece_bytes]

    def finish(self, submission: Submission) -> None:
        if self._rest and self._fault is None:
            self._store_piece(bytes(self._rest))
            self._rest.clear()
        fault = self._fault
        if fault is None and self._engine.current.core is not self._core:
            fault = Unavailable("The node lost its store while the document arrived.")
        if fault is not None:
            self.abandon()
            submission.failed(fault)
            return
        submission.name = self.name
        submission.attributes = replace(submission.attributes, pieces=str(self.name))
        report_done = submission.done

        def done(accepted: Accepted) -> None:
            if accepted.repeated:
                self.abandon()  # the token names an earlier document
            else:
                self._ended(self, True)
            report_done(accepted)

        submission.done = done
        report_failed = submission.failed

        def failed(error: Exception) -> None:
            # If the outcome is unknown, the document may have been accepted, so its pieces stay. If it was not, a sweep
            # (``Remains``) removes them.
            if isinstance(error, BadInput):
                self.abandon()
            else:
                self._ended(self, False)
            report_failed(error)

        submission.failed = failed
        submission.body = PiecesManifest(
            self.size, self._piece_bytes, digest_of(self._digests), self.digest.hex()
        ).encode()
        self._engine.current.acceptance.submit_in_pieces(submission, self._not_stored)

    def abandon(self) -> None:
        self._ended(self, False)
        if self._piece_count:
            self._core.post(drop_pieces(self._core, self.document_number, self._piece_count))
        self._piece_count = 0
        self._fault = self._fault or Unavailable("The body is incomplete.")
        self._rest.clear()
        self._pause(False)

    def _store_piece(self, payload: bytes) -> None:
        piece = NewPiece(self.document_number, self._piece_count, payload)
        self._piece_count += 1
        self._digests.append(sha256(payload).digest())
        self._uncommitted += len(payload)
        if self._uncommitted > UNCOMMITTED_MAX:
            self._pause(True)
        self._core.post(store_piece(piece, self._committed), failed=self._failed)

    def _committed(self, size: int) -> None:
        self._uncommitted -= size
        if self._uncommitted <= UNCOMMITTED_MAX // 2:
            self._pause(False)

    def _failed(self, error: Exception) -> None:
        """Drop the rest of the body, then refuse the document."""
        fault = semq_error(error)
        self._not_stored.setdefault(0, fault)
        self._fault = self._fault or fault
        self._pause(False)


class Uploads:
    """The uploads of all bodies that arrive now."""

    def __init__(self, engine: EngineHandle[LocalEngine], accepted: Callable[[], None]) -> None:
        """``accepted`` is called when a document has been committed."""
        self._engine = engine
        self._accepted = accepted
        self._arriving: WeakValueDictionary[int, Upload] = WeakValueDictionary()

    @property
    def document_numbers(self) -> set[int]:
        """The numbers of the documents whose upload has not ended: their pieces must stay."""
        return set(self._arriving)

    def begin(self, size: int, pause: Callable[[bool], None], fault: Exception | None = None) -> Upload:
        """Return the upload of a new body. ``pause`` and ``fault``: see ``Upload``."""
        upload = Upload(self._engine, size, self._note_end, pause, fault)
        self._arriving[upload.document_number] = upload
        return upload

    def _note_end(self, upload: Upload, is_accepted: bool) -> None:
        self._arriving.pop(upload.document_number, None)
        if is_accepted:
            self._accepted()


@work
def store_piece(piece: NewPiece, done: Callable[[int], None]) -> Steps:
    """Store a piece."""
    unit = yield NO_NEEDS
    unit.rare_changes.append(piece)
    yield COMMITTED
    done(len(piece.payload))


@work
def drop_pieces(core: Core, document: int, count: int, first: int = 0) -> Steps:
    """Delete the pieces of a document from number ``first`` to ``count`` - 1, a portion in each commit."""
    below = min(first + PORTION, count)
    unit = yield NO_NEEDS
    unit.rare_changes.append(PiecesGone(document, below))
    yield COMMITTED
    if below < count:
        core.post(drop_pieces(core, document, count, below), later=True)
