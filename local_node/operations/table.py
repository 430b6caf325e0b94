"""The table of a local node's operations."""

from local_node.operations.certificates import CERTIFICATES
from local_node.operations.failed import FAILED
from local_node.operations.legacy import LEGACY
from local_node.operations.messages import MESSAGES
from local_node.operations.missing import MISSING
from local_node.operations.submission import SUBMISSION
from local_node.operations.trace import TRACE
from local_node.operations.users import USERS
from semq.service.operations.audit import AUDIT
from semq.service.operations.broker import BROKER
from semq.service.operations.figures import FIGURES
from semq.service.operations.inquiry import INQUIRY
from semq.service.operations.jobs import JOBS
from semq.service.operations.messages import READING
from semq.service.operations.node import NODE
from semq.service.operations.outlook import OUTLOOK
from semq.service.operations.overview import OVERVIEW
from semq.service.operations.people import PEOPLE
from semq.service.operations.proofs import LEDGER, PROOFS
from semq.service.operations.tokens import TOKENS
from semq.service.operations.trust import TRUST

OPERATIONS = (
    *NODE,
    *JOBS,
    *SUBMISSION,
    *MESSAGES,
    *USERS,
    *READING,
    *OVERVIEW,
    *FIGURES,
    *OUTLOOK,
    *TRACE,
    *MISSING,
    *LEGACY,
    *INQUIRY,
    *PROOFS,
    *FAILED,
    *CERTIFICATES,
    *TRUST,
    *LEDGER,
    *TOKENS,
    *PEOPLE,
    *AUDIT,
    *BROKER,
)
