"""Wrong versions of the protocol of parts, planted in the model: each overrides one rule."""

from __future__ import annotations

from tests.service.protocol.parts.rules import Rules
from tests.service.protocol.parts.states import (
    MAX_FAILURES,
    Believes,
    Helper,
    Job,
    Phase,
    Row,
    RowState,
    State,
    Worker,
)


class NoAttemptInTheFence(Rules):
    def owns(self, row: Row, helper: Helper) -> bool:
        return row.state != RowState.ABSENT


class AttemptsBeginAgainAtAnOffer(Rules):
    """A new row has the attempts of the one that was claimed."""

    def after_a_claim(self, helper: Helper) -> Helper:
        return helper._replace(current=2)

    def after_a_take(self, helper: Helper) -> Helper:
        return helper if helper.current == 2 else super().after_a_take(helper)

    def owns(self, row: Row, helper: Helper) -> bool:
        leased = row.state in (RowState.LEASED, RowState.DONE)
        return leased if helper.current == 2 else super().owns(row, helper)


class ClaimWithoutTheJobsLease(Rules):
    def owns_job(self, state: State, worker: Worker) -> bool:
        return True


class ClaimOfALeasedPart(Rules):
    def can_claim(self, row: Row) -> bool:
        return row.state in (RowState.FREE, RowState.LEASED) or super().can_claim(row)


class TakeOfALiveLease(Rules):
    def can_take(self, row: Row) -> bool:
        return super().can_take(row._replace(left=0))


class TakeAfterTwoLosses(Rules):
    def can_take(self, row: Row) -> bool:
        return super().can_take(row._replace(failures=0))


class FailuresNotCounted(Rules):
    def taken(self, row: Row) -> Row:
        return super().taken(row)._replace(failures=row.failures)


class CheckpointDoesNotForgive(Rules):
    def named(self, row: Row, helper: Helper) -> Row:
        return super().named(row, helper)._replace(failures=row.failures)


class LeaseNotRenewed(Rules):
    def beaten(self, row: Row) -> Row:
        return row


class ResultWithoutItsFile(Rules):
    def begin(self, row: Row, helper: Helper, phase: Phase) -> tuple[Row, Helper]:
        before, writes = super().begin(row, helper, phase)
        if phase == Phase.DELIVERING and self.owns(row, helper):
            before = self.delivered(row, helper._replace(file=0))
        return before, writes


class CheckpointNamedBeforeItIsWritten(Rules):
    def begin(self, row: Row, helper: Helper, phase: Phase) -> tuple[Row, Helper]:
        before, writes = super().begin(row, helper, phase)
        if phase == Phase.SAVING and self.owns(row, helper):
            before = self.named(row, helper._replace(file=0))
        return before, writes


class RefusedWriteDeletesTheNamedFile(Rules):
    """Two leases write files of the same name."""

    def is_refused(self, row: Row) -> Row:
        return row._replace(stored=0) if row.checkpoint else row


class ReleaseForgetsTheCheckpoint(Rules):
    def released(self, row: Row) -> Row:
        return super().released(row)._replace(checkpoint=0)


class ResultTakenBackAtRelease(Rules):
    def released(self, row: Row) -> Row:
        return row._replace(state=RowState.FREE, left=0, failures=0)

    def refused(self, row: Row) -> Row:
        return row._replace(state=RowState.FREE, left=0, failures=MAX_FAILURES)


class DeliverAfterAClaim(Rules):
    """The row is inserted again."""

    def after_a_claim(self, helper: Helper) -> Helper:
        return helper

    def owns(self, row: Row, helper: Helper) -> bool:
        return bool(helper.current)


class OfferOverwritesARow(Rules):
    def offered(self, row: Row) -> Row:
        return Row(RowState.FREE)


class EndLeavesRows(Rules):
    def at_the_end(self, row: Row) -> Row:
        return row


class PausedPartsTaken(Rules):
    def gives_parts(self, job: Job) -> bool:
        return True


class HelpersStayWhileAJobWaits(Rules):
    def must_leave(self, job: Job) -> bool:
        return super().must_leave(job._replace(waits=0))


class ResultsAbsorbedTwice(Rules):
    def can_absorb(self, believes: int) -> bool:
        return believes != Believes.OWN


class LostClaimForgotten(Rules):
    """The job awaits a part whose row is gone."""

    def seen(self, row: Row, believes: int) -> int:
        return believes if row.state == RowState.ABSENT else super().seen(row, believes)


class DamagedResultAwaited(Rules):
    def can_claim(self, row: Row) -> bool:
        return row.state != RowState.DONE and super().can_claim(row)


class LeasesForever(Rules):
    def can_claim(self, row: Row) -> bool:
        return super().can_claim(row) and row.state != RowState.LEASED

    def can_take(self, row: Row) -> bool:
        return super().can_take(row) and row.state != RowState.LEASED


class SweepOfNamedFiles(Rules):
    def swept(self, row: Row) -> Row:
        return row._replace(stored=0) if row.checkpoint else row


PLANTED: tuple[type[Rules], ...] = tuple(Rules.__subclasses__())
