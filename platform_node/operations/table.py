"""The table of the hub's operations."""

from platform_node.ask_exchange import TRACE
from platform_node.operations.authority import AUTHORITY
from platform_node.operations.definitions import DEFINITIONS
from platform_node.operations.held import HELD
from platform_node.operations.instances import INSTANCES
from platform_node.operations.registration import REGISTRATION
from platform_node.operations.stores import STORES
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
from semq.service.operations.proofs import LEDGER
from semq.service.operations.tokens import TOKENS
from semq.service.operations.trust import TRUST

OPERATIONS = (
    *NODE,
    *JOBS,
    *REGISTRATION,
    *AUTHORITY,
    *DEFINITIONS,
    *HELD,
    *STORES,
    *INSTANCES,
    *READING,
    *OVERVIEW,
    *FIGURES,
    *OUTLOOK,
    *TRACE,
    *INQUIRY,
    *TRUST,
    *LEDGER,
    *TOKENS,
    *PEOPLE,
    *AUDIT,
    *BROKER,
)
