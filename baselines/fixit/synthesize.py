"""Contract pairs: broken twins of passing kernels, each with the exact finding, and no teacher.

The passing kernel is judged, then every mutant of it. A mutant that fails, or that causes the finding it was made for,
becomes a pair: (broken kernel, finding, passing kernel, broken contract).
"""

from __future__ import annotations

import hashlib
import random
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from baselines.fixit.contracts import Finding, contract_of
from baselines.fixit.files import now
from baselines.fixit.findings import findings_of
from baselines.fixit.judge import Judged, judge
from baselines.fixit.mutations import MUTATIONS, Mutant, Mutation, mutants
from baselines.fixit.pool import Progress, Step, Unjudged, work_through
from baselines.fixit.records import TWINS, BrokenContract, Failure, Origin, Pair, Twin, content_id
from baselines.fixit.sources import changed_lines, code_id, kept_share
from baselines.fixit.verify import fault_of_the_machine, is_verified
from ptxgym.errors import MisuseError
from ptxgym.runs.records import read_turns
from ptxgym.tasks import TASKS


@dataclass(frozen=True)
class Parent:
    """A kernel that should pass."""

    env: str
    source: str
    name: str
    """Where it comes from."""


@dataclass(frozen=True)
class SynthesizeSettings:
    """What is made."""

    mutations: tuple[str, ...] = ()
    """Names; all when empty."""
    limit: int = 0
    """At most so many mutants per kernel, spread over the mutations; 0 for all."""
    seed: int = 0
    env_settings: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments of the environments. Only the simulator names the broken contract."""


@dataclass(frozen=True)
class _Item:
    parent: Parent
    mutant: Mutant

    @property
    def id(self) -> str:
        return content_id(self.parent.env, self.mutant.id)


def synthesize(
    work: Path,
    parents: Iterable[Parent],
    settings: SynthesizeSettings,
    *,
    concurrency: int = 2,
    tell: Callable[[str], None] = lambda text: None,
) -> Progress:
    """Judge every mutant that has no record yet.

    Raises:
        MisuseError: There is no such mutation.
        InfrastructureError: The records cannot be written.
    """
    names = {mutation.name for mutation in MUTATIONS}
    if unknown := set(settings.mutations) - names:
        raise MisuseError(f"There is no mutation {min(unknown)!r}. There are {', '.join(sorted(names))}.")
    verdicts = _Verdicts(settings)
    step = Step[_Item, Twin](
        path=work / TWINS,
        record=Twin,
        key_of_item=lambda item: item.id,
        key_of_record=lambda record: record.id,
        work=lambda item: _twin(item, verdicts, settings),
        outcome=lambda record: record.outcome,
    )
    return work_through(step, _items(parents, settings), concurrency=concurrency, tell=tell)


def parents_from_files(files: Sequence[Path], env: str) -> Iterator[Parent]:
    """Kernels of a task from files.

    Raises:
        MisuseError: A file cannot be read.
    """
    for file in files:
        try:
            yield Parent(env, file.read_text(encoding="utf-8"), file.name)
        except (OSError, UnicodeDecodeError) as error:
            raise MisuseError(f"{file} cannot be read: {error}.") from None


def parents_from_examples() -> list[Parent]:
    """The repository's example kernels, each for its own task.

    Raises:
        MisuseError: There is no checkout around the package, and so no example.
    """
    from baselines.scripted import NO_EXAMPLES, example

    found = [Parent(env, source, f"example of {env}") for env in TASKS if (source := example(env))]
    if not found:
        raise MisuseError(NO_EXAMPLES)
    return found


def parents_from_runs(runs: Sequence[Path]) -> Iterator[Parent]:
    """Turns that passed, each code once."""
    seen: set[str] = set()
    for run in runs:
        for turn in read_turns(run):
            if is_verified(turn.evaluation) and (name := code_id(turn.env, turn.source)) not in seen:
                seen.add(name)
                yield Parent(turn.env, turn.source, turn.run)


def _items(parents: Iterable[Parent], settings: SynthesizeSettings) -> Iterator[_Item]:
    for parent in parents:
        found = [
            mutant
            for mutant in mutants(parent.source)
            if not settings.mutations or mutant.mutation.name in settings.mutations
        ]
        yield from (_Item(parent, mutant) for mutant in _some(found, settings))


def _some(found: list[Mutant], settings: SynthesizeSettings) -> list[Mutant]:
    """As many as asked for, one of each mutation in turn."""
    if not settings.limit or len(found) <= settings.limit:
        return found
    generator = random.Random(settings.seed)
    by_mutation: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in found:
        by_mutation[mutant.mutation.name].append(mutant)
    queues = list(by_mutation.values())
    for queue in queues:
        generator.shuffle(queue)
    generator.shuffle(queues)
    deepest = max(map(len, queues))
    return [queue[depth] for depth in range(deepest) for queue in queues if depth < len(queue)][: settings.limit]


class _Verdicts:
    """Verdicts on the passing kernels, each asked for once, by whichever thread comes first."""

    def __init__(self, settings: SynthesizeSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = defaultdict(threading.Lock)
        self._known: dict[str, Judged] = {}

    def of(self, parent: Parent) -> Judged:
        """The verdict on a parent.

        Raises:
            Unjudged: This machine cannot judge it.
        """
        key = content_id(parent.env, parent.source)
        with self._lock:
            lock = self._locks[key]
        with lock:
            if key not in self._known:
                found = judge(parent.env, parent.source, self._settings.env_settings)
                _insist(found)
                self._known[key] = found
            return self._known[key]


def _twin(item: _Item, verdicts: _Verdicts, settings: SynthesizeSettings) -> Twin:
    passing = verdicts.of(item.parent)
    if not is_verified(passing.evaluation):
        return _record(item, "discarded", f"parent: {passing.evaluation.status}", None)
    broken = judge(item.parent.env, item.mutant.source, settings.env_settings)
    _insist(broken)
    status = broken.evaluation.status
    finding = _finding(broken, item.mutant.mutation)
    if status in ("compile_error", "invalid_action", "unknown"):
        return _record(item, "discarded", status, None)
    if status == "passed" and not (finding and finding.code in item.mutant.mutation.codes):
        return _record(item, "harmless", status, None)
    return _record(item, "pair", status, _pair(item, passing, broken, finding))


def _insist(judged: Judged) -> None:
    """Raise Unjudged where the machine is to blame: then the same command may succeed later."""
    if fault := fault_of_the_machine(judged.evaluation):
        raise Unjudged(fault)


def _finding(judged: Judged, mutation: Mutation) -> Finding | None:
    """The finding that the mutation should cause, else the first."""
    found = findings_of(judged.evaluation)
    expected = [finding for finding in found if finding.code in mutation.codes]
    return next(iter(expected or found), None)


def _pair(item: _Item, passing: Judged, broken: Judged, finding: Finding | None) -> Pair:
    parent, mutant = item.parent, item.mutant
    status = broken.evaluation.status
    failure = Failure(
        id=code_id(parent.env, mutant.source),
        problem=broken.problem,
        source=mutant.source,
        feedback=broken.feedback,
        error_class="finding" if status == "passed" else status,
        evaluation=broken.evaluation,
        origin=Origin(run=parent.name),
    )
    return Pair(
        id=content_id(failure.id, code_id(parent.env, parent.source)),
        problem=passing.problem,
        failure=failure,
        kernel=parent.source,
        verification=passing.record,
        made_by="mutation",
        kept=kept_share(mutant.source, parent.source),
        broken=_broken(item, broken, finding),
    )


def _broken(item: _Item, broken: Judged, finding: Finding | None) -> BrokenContract:
    mutation = item.mutant.mutation
    before, after = changed_lines(item.parent.source, item.mutant.source)
    failed = broken.evaluation.failed_stage
    return BrokenContract(
        mutation=mutation.name,
        contract=_contract(mutation, finding),
        code=finding.code if finding else "",
        finding=finding.text if finding else failed.message if failed else "",
        line=finding.line if finding else 0,
        expected=finding.code in mutation.codes if finding else not mutation.codes,
        before=before,
        after=after,
    )


def _contract(mutation: Mutation, finding: Finding | None) -> str:
    """The broken contract's number: one of the mutation's own, the one that the finding checks if there is one."""
    expected = finding is None or finding.code in mutation.codes
    checked = contract_of(finding.code, mutation.contracts) if finding else None
    if checked and (checked.id in mutation.contracts or not expected):
        return checked.id
    return next(iter(mutation.contracts), checked.id if checked else "")


def _record(item: _Item, outcome: Literal["pair", "harmless", "discarded"], status: str, pair: Pair | None) -> Twin:
    return Twin(
        id=item.id,
        env=item.parent.env,
        parent=hashlib.sha256(item.parent.source.encode("utf-8")).hexdigest(),
        mutation=item.mutant.mutation.name,
        outcome=outcome,
        status=status,
        pair=pair,
        created=now(),
    )
