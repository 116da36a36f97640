"""Failed turns of runs, stratified by problem, error class and turn, each kernel once.

Two passes, so that memory does not grow with the sources: the first keeps a few words per turn and chooses, the second
writes what was chosen.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from baselines.fixit.files import writing_whole
from baselines.fixit.records import FAILURES, SOLUTIONS, Failure, Origin, Pair, Problem, content_id
from baselines.fixit.sources import code_id
from baselines.fixit.verify import is_verified
from baselines.mini_ptx_agent.agent import SYSTEM
from ptxgym.errors import MisuseError
from ptxgym.evaluation import EvaluationOptions, feedback
from ptxgym.runs.journal import FolderLock
from ptxgym.runs.records import RunRecord, TrajectoryKey, TurnRecord, read_run, read_turns
from ptxgym.trajectories import EvaluationRecord

ERROR_CLASSES = (
    "compile_error",
    "memory_error",
    "runtime_error",
    "timeout",
    "incorrect",
    "target_instructions_missing",
)
"""What can be mined: failures with a kernel, found by the judge. An answer without a kernel teaches nothing here."""


@dataclass(frozen=True)
class MineSettings:
    """What is taken."""

    classes: tuple[str, ...] = ERROR_CLASSES
    problems: tuple[str, ...] = ()
    """Instances; all when empty."""
    last_turn: int = 5
    """Later turns are left out: they repeat the earlier ones more and more."""
    per_stratum: int = 0
    """At most so many of a problem, class and turn; 0 for all."""
    per_problem: int = 0
    """At most so many of a problem, spread over its strata; 0 for all."""
    balanced: tuple[str, ...] = ()
    """Problems of which equally many are taken: ``per_problem``, or as many as the poorest has."""
    seed: int = 0
    round: int = 0
    passed: bool = False
    """Take turns that passed instead, for KernelGen."""


Position = tuple[int, int]
"""Which run, and which of its turns: the same in both passes, even when a run grows in between."""


class Stratum(NamedTuple):
    """What failures are spread over."""

    problem: str
    error_class: str
    turn: int


@dataclass(frozen=True)
class Mined:
    """What was found and what was taken."""

    seen: int
    """Turns."""
    eligible: int
    duplicates: int
    taken: Counter[Stratum]


@dataclass
class _Candidates:
    """The first pass: a few words per eligible turn."""

    seen: int = 0
    eligible: int = 0
    strata: dict[Stratum, list[tuple[Position, str]]] = field(default_factory=lambda: defaultdict(list))
    """Stratum to positions and ids."""


def mine(runs: Sequence[Path], work: Path, settings: MineSettings, known: Collection[str] = ()) -> Mined:
    """Write ``failures.jsonl`` (or ``solutions.jsonl``) of a work folder.

    Args:
        runs: Folders of runs.
        work: Where it goes; it is created.
        settings: What is taken.
        known: Ids that are left out, such as those of earlier rounds.

    Raises:
        MisuseError: There is no such run, nothing to take, or a file from before.
    """
    unknown = set(settings.classes) - set(ERROR_CLASSES)
    if unknown:
        raise MisuseError(f"There is no error class {sorted(unknown)[0]!r}; there are {', '.join(ERROR_CLASSES)}.")
    target = work / (SOLUTIONS if settings.passed else FAILURES)
    with FolderLock(work):
        if target.exists():
            raise MisuseError(f"{target} is there already. Remove it to mine again; repairs of the same kernels stay.")
        found = _look(runs, settings)
        chosen, duplicates = _choose(found, settings, known)
        if not chosen:
            raise MisuseError(
                f"{found.seen} turns were read and none can be taken: {found.eligible} are of the classes, problems "
                f"and turns asked for, {duplicates} of those are duplicates or known."
            )
        with writing_whole(target) as write:
            for record in _records(runs, chosen, settings):
                write(record)
    return Mined(found.seen, found.eligible, duplicates, Counter(chosen.values()))


def _look(runs: Sequence[Path], settings: MineSettings) -> _Candidates:
    found = _Candidates()
    for position, _, turn in _turns(runs):
        found.seen += 1
        if _wanted(turn, settings):
            found.eligible += 1
            error_class = "none" if settings.passed else turn.evaluation.status
            stratum = Stratum(turn.env, error_class, turn.turn)
            found.strata[stratum].append((position, code_id(turn.env, turn.source)))
    return found


def _wanted(turn: TurnRecord, settings: MineSettings) -> bool:
    if not turn.source.strip() or turn.evaluation.task != turn.env:
        return False
    if settings.problems and turn.env not in settings.problems:
        return False
    if settings.passed:
        return is_verified(turn.evaluation)
    return turn.turn <= settings.last_turn and turn.evaluation.status in settings.classes


def _choose(found: _Candidates, settings: MineSettings, known: Collection[str]) -> tuple[dict[Position, Stratum], int]:
    """Position to stratum of what is taken, and how many were duplicates."""
    generator = random.Random(settings.seed)
    used = set(known)
    duplicates = 0
    by_problem: dict[str, list[list[tuple[Position, Stratum]]]] = defaultdict(list)
    # Earlier turns first, so that a repeated kernel counts where it appeared.
    for stratum in sorted(found.strata, key=lambda stratum: (stratum.problem, stratum.turn, stratum.error_class)):
        fresh = []
        for position, name in found.strata[stratum]:
            if name in used:
                duplicates += 1
                continue
            used.add(name)
            fresh.append((position, stratum))
        generator.shuffle(fresh)
        by_problem[stratum.problem].append(fresh[: settings.per_stratum or None])
    limits = _limits({name: sum(map(len, lists)) for name, lists in by_problem.items()}, settings)
    chosen: dict[Position, Stratum] = {}
    for name, lists in by_problem.items():
        chosen.update(_round_robin(lists, limits.get(name, settings.per_problem)))
    return chosen, duplicates


def _limits(present: dict[str, int], settings: MineSettings) -> dict[str, int]:
    """How many of each problem that must be balanced.

    Raises:
        MisuseError: One has too few.
    """
    names = settings.balanced
    number = settings.per_problem or min((present.get(name, 0) for name in names), default=0)
    poor = [name for name in names if present.get(name, 0) < max(number, 1)]
    if poor:
        lines = [
            f"{max(number, 1)} of {name} are needed and {present.get(name, 0)} are there: "
            f"{max(number, 1) - present.get(name, 0)} lack."
            for name in poor
        ]
        raise MisuseError("\n".join(["The failures cannot be balanced over the problems.", *lines]))
    return dict.fromkeys(names, number)


def _round_robin(lists: list[list[tuple[Position, Stratum]]], limit: int) -> dict[Position, Stratum]:
    """One of each stratum in turn, until all are empty or enough are taken."""
    taken: dict[Position, Stratum] = {}
    for depth in range(max(map(len, lists), default=0)):
        for entries in lists:
            if depth < len(entries) and (not limit or len(taken) < limit):
                taken[entries[depth][0]] = entries[depth][1]
    return taken


def _turns(runs: Sequence[Path]) -> Iterator[tuple[Position, RunRecord, TurnRecord]]:
    """Every turn with its position."""
    for number, folder in enumerate(runs):
        run = read_run(folder)
        for place, turn in enumerate(read_turns(folder)):
            yield (number, place), run, turn


def _records(runs: Sequence[Path], chosen: dict[Position, Stratum], settings: MineSettings) -> Iterator[Failure | Pair]:
    prompts: dict[tuple[str, TrajectoryKey], Problem] = {}
    texts: dict[str, str] = {}
    for position, run, turn in _turns(runs):
        key = (str(turn.run), turn.key)
        if turn.turn == 1:
            problem = _problem(turn, run)
            shared = {name: texts.setdefault(text, text) for name, text in problem.model_dump().items()}
            prompts[key] = Problem(**shared)
        if position in chosen:
            problem = prompts.get(key) or _problem(turn, run)
            yield _solution(turn, run, problem, settings) if settings.passed else _failure(turn, problem, settings)


def _problem(turn: TurnRecord, run: RunRecord) -> Problem:
    """What the policy was asked: from its conversation, else as the environment states it."""
    system = next((m.content for m in turn.messages if m.role == "system"), SYSTEM)
    before_the_answer = _up_to_answer(m.role for m in turn.messages)
    asked = [m.content for m in turn.messages[:before_the_answer] if m.role == "user"]
    return Problem(env=turn.env, system=system, prompt=asked[0] if asked and turn.turn == 1 else _prompt(turn, run))


def _up_to_answer(roles: Iterable[str]) -> int:
    return next((place for place, role in enumerate(roles) if role == "assistant"), 0)


def _prompt(turn: TurnRecord, run: RunRecord) -> str:
    from ptxgym.envs import KernelEnv

    text = run.variants.get(turn.env, {}).get(turn.variant, "")
    settings = {name: value for name, value in run.env_settings.items() if name not in ("device", "cache")}
    return KernelEnv(turn.env, device="none", max_turns=run.max_turns, knowledge=text, **settings).prompt


def _failure(turn: TurnRecord, problem: Problem, settings: MineSettings) -> Failure:
    last = turn.messages[-1] if turn.messages else None
    return Failure(
        id=code_id(turn.env, turn.source),
        problem=problem,
        source=turn.source,
        feedback=last.content if last and last.role == "user" else feedback(turn.evaluation),
        error_class=turn.evaluation.status,
        evaluation=turn.evaluation,
        origin=_origin(turn),
        round=settings.round,
    )


def _solution(turn: TurnRecord, run: RunRecord, problem: Problem, settings: MineSettings) -> Pair:
    options = {name: value for name, value in run.env_settings.items() if name in EvaluationOptions.model_fields}
    return Pair(
        id=content_id("solution", code_id(turn.env, turn.source)),
        problem=problem,
        kernel=turn.source,
        verification=EvaluationRecord(
            task=turn.env,
            source=turn.source,
            options=EvaluationOptions.model_validate(options),
            evaluation=turn.evaluation,
            reward=turn.reward,
            turn=turn.turn,
            created=turn.created,
        ),
        made_by="policy",
        teacher=turn.model,
        round=settings.round,
    )


def _origin(turn: TurnRecord) -> Origin:
    return Origin(run=turn.run, model=turn.model, variant=turn.variant, trajectory=turn.trajectory, turn=turn.turn)
