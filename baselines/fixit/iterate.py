"""Rounds: mine the current checkpoint's own runs, repair, reason, and build from all rounds so far.

The failures of a trained student are not those of the model that it was trained from. Each round takes the newest
checkpoint's runs, leaves out what earlier rounds had, and builds a data set in which the recipe's ``rounds`` say how
much comes from which round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from baselines.fixit.build import BuildRecord, BuildSettings, build
from baselines.fixit.dataset import RECORD
from baselines.fixit.mine import mine
from baselines.fixit.pool import Progress
from baselines.fixit.reason import ReasonSettings, reason
from baselines.fixit.recipe import Recipe
from baselines.fixit.records import FAILURES, SOLUTIONS, read_failures, read_pairs
from baselines.fixit.repair import RepairSettings, repair
from baselines.fixit.sources import code_id
from baselines.fixit.student import Student
from baselines.fixit.teacher import Teacher
from ptxgym.errors import MisuseError
from ptxgym.runs.journal import FolderLock, write_by_rename
from ptxgym.runs.records import read_run
from ptxgym.toolchain import Record

STATE = "iterate.json"

StepName = Literal["mine", "repair", "reason", "build"]
STEPS: tuple[StepName, ...] = ("mine", "repair", "reason", "build")


class Round(Record):
    """One round."""

    number: int
    runs: tuple[str, ...]
    """Folders of the runs that were mined."""
    model: str
    """The checkpoint that played them."""
    done: tuple[StepName, ...] = ()
    """Steps that need nothing more."""


class State(Record):
    """Where the rounds stand. Written after every step."""

    version: Literal[1] = 1
    recipe: Recipe
    rounds: tuple[Round, ...] = ()


class Iteration:
    """The rounds of one recipe in one folder.

    Args:
        root: The folder; ``round-0``, ``round-1`` … are work folders in it, each with its data set in ``data``.
        recipe: What is built; resumed rounds keep the recipe that they were begun with.
        teacher: Who repairs.
        reasoner: Who reasons; None writes from the simulator's finding.
        repairs: How failures are repaired.
        reasons: How reasonings are written.
        student: The student's tokenizer, if lengths and template are to be checked.
        concurrency: How many at a time.
        tell: Told a line now and then.
    """

    def __init__(
        self,
        root: Path,
        recipe: Recipe,
        *,
        teacher: Teacher | None,
        reasoner: Teacher | None,
        repairs: RepairSettings,
        reasons: ReasonSettings,
        student: Student | None = None,
        concurrency: int = 4,
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.root, self.recipe, self.teacher, self.reasoner = root, recipe, teacher, reasoner
        self.repairs, self.reasons, self.student = repairs, reasons, student
        self.concurrency, self.tell = concurrency, tell
        if recipe.method == "fixit" and teacher is None:
            raise MisuseError("A round of Fixit needs a teacher that repairs: --model.")

    def run(self, runs: Sequence[Path]) -> tuple[Round, Progress | BuildRecord]:
        """Go on with the unfinished round, or begin the next one with these runs.

        Returns:
            The round, and how it ended: the build, or the progress of a step that left something open.

        Raises:
            MisuseError: There are no runs to begin with, or those of an unfinished round differ.
        """
        with FolderLock(self.root):
            state = self._state()
            current = self._current(state, runs)
            for step in STEPS:
                if step in current.done:
                    continue
                self.tell(f"round {current.number}: {step}")
                outcome = self._step(step, current)
                if isinstance(outcome, Progress) and outcome.left_open:
                    return current, outcome
                current = current.model_copy(update={"done": (*current.done, step)})
                state = self._save(state, current)
        assert isinstance(outcome, BuildRecord)
        return current, outcome

    def work(self, number: int) -> Path:
        """The work folder of a round."""
        return self.root / f"round-{number}"

    def _step(self, step: StepName, current: Round) -> Progress | BuildRecord | None:
        work = self.work(current.number)
        if step == "mine":
            self._mine(current)
        elif step == "repair" and self.teacher is not None and self.recipe.method == "fixit":
            return repair(work, self.teacher, self.repairs, concurrency=self.concurrency, tell=self.tell)
        elif step == "reason":
            return reason(work, self.reasoner, self.reasons, concurrency=self.concurrency, tell=self.tell)
        elif step == "build":
            if (done := work / "data" / RECORD).exists():  # killed between the folder and the state
                return BuildRecord.model_validate_json(done.read_bytes())
            works = [self.work(number) for number in range(current.number + 1)]
            settings = BuildSettings(recipe=self.recipe, student=self.student)
            return build(works, work / "data", settings, self.tell)
        return None

    def _mine(self, current: Round) -> None:
        work = self.work(current.number)
        settings = self.recipe.mining(current.number)
        target = work / (SOLUTIONS if settings.passed else FAILURES)
        if not target.exists():  # killed between the file and the state: it is whole, being written by rename
            mine([Path(run) for run in current.runs], work, settings, self._known(current.number))

    def _known(self, number: int) -> set[str]:
        """Ids of what earlier rounds mined."""
        known: set[str] = set()
        for earlier in map(self.work, range(number)):
            if (earlier / FAILURES).exists():
                known |= {failure.id for failure in read_failures(earlier)}
            if (earlier / SOLUTIONS).exists():
                known |= {code_id(pair.problem.env, pair.kernel) for pair in read_pairs(earlier)}
        return known

    def _state(self) -> State:
        path = self.root / STATE
        if not path.exists():
            return State(recipe=self.recipe)
        try:
            state = State.model_validate_json(path.read_bytes())
        except ValidationError as error:
            raise MisuseError(f"{path} is no state of rounds: {error.errors()[0]['msg']}.") from None
        if state.recipe != self.recipe:
            raise MisuseError(f"The rounds in {self.root} follow another recipe, {state.recipe.name}. Use its folder.")
        return state

    def _current(self, state: State, runs: Sequence[Path]) -> Round:
        last = state.rounds[-1] if state.rounds else None
        names = tuple(str(run.resolve()) for run in runs)
        if last and set(last.done) != set(STEPS):
            if names and names != last.runs:
                raise MisuseError(f"Round {last.number} is unfinished and has other runs: {', '.join(last.runs)}.")
            return last
        if not names:
            raise MisuseError("Say which runs the new round mines: those of the current checkpoint.")
        if last and set(names) & {run for earlier in state.rounds for run in earlier.runs}:
            raise MisuseError(
                "A run was mined in an earlier round already; a round takes the newest checkpoint's runs."
            )
        models = sorted({read_run(run).model for run in runs})
        return Round(number=last.number + 1 if last else 0, runs=names, model=", ".join(models))

    def _save(self, state: State, current: Round) -> State:
        rounds = [*(r for r in state.rounds if r.number != current.number), current]
        state = state.model_copy(update={"rounds": tuple(rounds)})
        write_by_rename(self.root / STATE, state.model_dump_json(indent=1) + "\n")
        return state
