"""Documents to a group of institutions, or to all users of an institution (PROTOCOL.md section 2.1).

One submission becomes a message for each member, in one commit.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from semq.engine import errors
from semq.engine.partners import Partners
from semq.engine.ports import Submission
from semq.engine.sender.positions import in_sequence
from semq.errors import SemqError, Unavailable
from semq.store.rows import OrderKey, OutStreamKey
from semq.store.unit import Needs
from semq.umx_t.address import Address, NodeType, parse_address
from semq.umx_t.errors import BadAddress, BadCombination
from semq.umx_t.status import SaveFwd

BYTES_MAX = 32 << 20  # bytes of a document times the number of its members: one commit writes them all
UNCOMMITTED_MAX = 10_000  # uncommitted messages to members of groups
NAMED_MAX = 5  # members that an error names
T = TypeVar("T")


def is_group(target: Address) -> bool:
    """Whether a target is a group of institutions, or all users of an institution."""
    return target.type in (NodeType.GROUP, NodeType.USERS)


class GroupExpansion:
    """Replaces submissions to groups, and bounds the uncommitted messages to members."""

    def __init__(self, partners: Partners) -> None:
        self._partners = partners
        self._uncommitted = 0

    def targets_of(self, submission: Submission, size: int) -> tuple[Address, ...]:
        """Return the targets of a document: all members of a group except this institution, or all users of an
        institution.

        Raises UnknownTarget, GroupRefused, GroupWaits, BadAddress, BadCombination, DocumentTooLarge.
        """
        target = submission.target
        if target.type == NodeType.USERS and target.user:
            raise BadAddress(
                "The address of all users of an institution (4.NODE) must not be followed by a user.",
                address=str(target),
            ).with_remedy(f"Send to {target.node}, or to one user: {NodeType.LOCAL:d}.{target.id}/{target.user}.")
        if submission.attributes.save_fwd is not SaveFwd.MUST:
            raise BadCombination("A document to a group has a receipt from each member, so it needs @SaveFwd=3.")
        group = self._partners.groups.get(str(target.node))
        if group is None and not self._partners.has_hub:
            raise errors.UnknownTarget(
                "Groups are defined at a hub, and this node has none.", target=str(target)
            ).with_remedy("Send the document to each institution by itself.")
        if group is None and self._partners.overflow and self._partners.is_listed:
            raise errors.GroupRefused(
                "The hub names more partners and groups than this node keeps, and the group is not among those kept.",
                target=str(target),
            ).with_remedy(
                "Check the name; send to each member by itself, or ask the hub's operator for smaller groups."
            )
        if group is None and not self._partners.complete:
            raise errors.GroupWaits(
                "This node has no complete list of groups from the hub yet.", target=str(target)
            ).with_remedy("Submit it again when the link to the hub is up (`semq node status`).")
        if group is None:
            raise errors.UnknownTarget(
                "The hub has named no such group, or no users of such an institution.", target=str(target),
                known=" ".join(sorted(self._partners.groups)[:NAMED_MAX]),
            ).with_remedy(
                "Check the name. The hub's operator defines groups and users (`semq definitions import`). A node learns"
                " those with a member to which it may send, while its link is up."
            )  # fmt: skip
        if group.others:
            raise errors.GroupRefused(
                "Agreements allow this institution to send to some members of the group only.", target=str(target),
                may_send_to=len(group.members), not_to=group.others,
            ).with_remedy("Ask the hub's operator for agreements with all members (`semq definitions`).")  # fmt: skip
        allowed = BYTES_MAX // len(group.members)
        if size > allowed:
            raise errors.DocumentTooLarge(
                "A document to a group is stored once for each member.", size=size, allowed=allowed,
                target=str(target), members=len(group.members),
            ).with_remedy("Send it to each member by itself, or to smaller groups.")  # fmt: skip
        members = map(parse_address, group.members)
        return tuple(member if member.user else member._replace(user=target.user) for member in members)

    def expand(
        self,
        submission: Submission,
        check: Callable[[Submission], None],
        admit: Callable[[Submission], None],
        undo_admit: Callable[[Submission], None],
    ) -> None:
        """Fill in the members of a submission. ``check``, and then ``admit``, is called for all members and raises an
        error for a refused one; ``admit`` counts the member for its rate, ``undo_admit`` does not count it after all.

        Raises the errors of ``targets_of``, and GroupRefused or GroupWaits if a member is refused.
        """
        targets = self.targets_of(submission, len(submission.body))
        if self._uncommitted + len(targets) > UNCOMMITTED_MAX:
            raise errors.GroupWaits("Too many documents to groups are being stored.", uncommitted=self._uncommitted)
        members = [_member(submission, target) for target in targets]
        _check_all(check, _ignore, submission.target, members)
        _check_all(admit, undo_admit, submission.target, members)
        submission.members = members
        self._uncommitted += len(members)
        submission.done = partial(self._ended, len(members), submission.done)
        submission.failed = partial(self._ended, len(members), submission.failed)

    def _ended(self, members: int, report: Callable[[T], None], result: T) -> None:
        self._uncommitted -= members
        report(result)


def _member(submission: Submission, target: Address) -> Submission:
    attributes = in_sequence(submission.attributes, target)
    return replace(submission, target=target, attributes=attributes, row_id=0, done=_ignore, failed=_ignore)


def messages(submissions: Sequence[Submission]) -> Iterator[Submission]:
    """Yield the submissions that become messages: instead of a submission to a group, its members."""
    for submission in submissions:
        yield from submission.members or (submission,)


def needs_of(inc: int, submissions: Sequence[Submission]) -> Needs:
    """Return what the acceptance of submissions needs in its transaction. ``inc``: the incarnation of this process."""
    needs = Needs()
    needs.tokens.update(each.token for each in submissions if each.token)
    needs.outbound.update(each.repeats.lk0.object_id for each in submissions if each.repeats is not None)
    for submission in messages(submissions):
        dest, attributes = str(submission.target.node), submission.attributes
        if attributes.save_fwd is SaveFwd.MUST:
            needs.out_streams.add(OutStreamKey(dest, inc))
        if attributes.order_key:
            needs.last_pos.add(OrderKey(dest, attributes.order_key))
    return needs


def _check_all(
    step: Callable[[Submission], None],
    undo: Callable[[Submission], None],
    target: Address,
    members: Sequence[Submission],
) -> None:
    """Check all members; after a fault, undo the step for the others. Raises GroupRefused, or GroupWaits if all faults
    are temporary."""
    faults: list[tuple[Address, SemqError]] = []
    passed: list[Submission] = []
    for member in members:
        try:
            step(member)
            passed.append(member)
        except SemqError as error:
            faults.append((member.target, error))
    if not faults:
        return
    for member in passed:
        undo(member)
    named = ", ".join(f"{member} {error.code}" for member, error in faults[:NAMED_MAX])
    is_temporary = all(isinstance(error, Unavailable) for _, error in faults)
    kind = errors.GroupWaits if is_temporary else errors.GroupRefused
    raise kind(target=str(target), first=faults[0][1].text, members=named, refused=len(faults), of=len(members))


def _ignore(_: object) -> None:
    """Report nothing: the submission to the group reports for all members."""
