"""How much of what a run was to play is on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ptxgym.runs.records import RunRecord, StopRecord, TrajectoryKey


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of a run's plan is on disk."""

    planned: int
    """Trajectories; none where the settings do not name the variants."""
    max_turns: int
    begun: int
    ended: int
    """Of their own accord or at a limit; not by an error."""
    turns: int
    absent: tuple[str, ...]
    """Instances that no turn was played of."""

    @property
    def whole(self) -> bool:
        """Whether nothing is left to play."""
        return self.ended >= self.planned

    @property
    def text(self) -> str:
        """One line."""
        most = self.planned * self.max_turns
        begun = f"{self.begun} of {self.planned} trajectories begun, {self.ended} ended"
        absent = f"; none of {', '.join(self.absent)}" if self.absent else ""
        return f"{begun}; {self.turns} turns of at most {most}{absent}"


def coverage(
    record: RunRecord, turns: Mapping[TrajectoryKey, int], stops: Mapping[TrajectoryKey, StopRecord]
) -> Coverage:
    """Hold what is on disk against the plan.

    Args:
        record: The run's settings.
        turns: Trajectory to the number of its turns.
        stops: As :func:`read_stops` has them.
    """
    begun = {key for key, number in turns.items() if number}
    played = {key.env for key in begun}
    return Coverage(
        planned=len(record.plan),
        max_turns=record.max_turns,
        begun=len(begun),
        ended=sum(stop.final and turns.get(key, 0) >= stop.turn for key, stop in stops.items()),
        turns=sum(turns.values()),
        absent=tuple(env for env in record.envs if env not in played),
    )
