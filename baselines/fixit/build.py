"""From reasonings to a data set. Nothing unverified enters: the verification of every sample is read again here.

Two passes, so that memory does not grow with the texts: the first checks every record and keeps its place in the file,
the second writes what was chosen.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from baselines.fixit.card import data_card
from baselines.fixit.dataset import CARD, FORMAT, RECORD, TRAIN, VALIDATION, writing
from baselines.fixit.files import now
from baselines.fixit.filters import SPECIAL_TOKEN
from baselines.fixit.recipe import Recipe, choose, eligible
from baselines.fixit.records import REASONS, Method, Reasoning
from baselines.fixit.samples import can_be_submitted, make_sample
from baselines.fixit.student import Student
from baselines.fixit.verify import objection
from ptxgym.errors import MisuseError
from ptxgym.runs.journal import write_by_rename
from ptxgym.toolchain import Record


class Count(Record):
    """A line of the data card."""

    split: str
    problem: str
    error_class: str
    round: int
    reasoning: str
    made_by: str
    contract: str
    samples: int


class BuildRecord(Record):
    """What a data set was built from."""

    version: int = 1
    format: int = FORMAT
    created: str
    works: tuple[str, ...]
    method: Method
    recipe: Recipe | None
    tokenizer: str
    """Empty when no tokenizer was given: then neither lengths nor the template were checked."""
    max_tokens: int
    min_kept: float
    seed: int
    records: int
    """Accepted reasonings that were read."""
    dropped: dict[str, int]
    """Why records were left out, and how many."""
    unchosen: int
    """Good samples that the recipe did not take."""
    counts: tuple[Count, ...]

    def samples(self, split: str) -> int:
        """How many a split has."""
        return sum(count.samples for count in self.counts if count.split == split)


@dataclass(frozen=True)
class BuildSettings:
    """How a data set is built."""

    method: Method = "fixit"
    recipe: Recipe | None = None
    student: Student | None = None
    min_kept: float = 0.0
    """Repairs that keep a smaller share of the failing kernel's lines are no repairs."""
    validation_share: float = 0.1
    """Share of the problems that are held out, where no recipe says which."""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """A good sample: where it lies, and what it is chosen by."""

    work: int
    offset: int
    id: str
    problem: str
    error_class: str
    round: int
    reasoning: str
    made_by: str
    contract: str


@dataclass
class Pool:
    """The good samples of work folders, and why others are none."""

    places: list[Place] = field(default_factory=list)
    records: int = 0
    dropped: Counter[str] = field(default_factory=Counter)


def build(
    works: Sequence[Path], out: Path, settings: BuildSettings, tell: Callable[[str], None] = lambda text: None
) -> BuildRecord:
    """Build a data set: two Parquet files, the data card, and the record of the build.

    Args:
        works: Work folders.
        out: The data set's folder; it appears when all of it is there.
        settings: Method, recipe, tokenizer, limits.
        tell: Told a line now and then.

    Raises:
        MisuseError: The folder is there, there are no samples, or too few for the recipe.
        MissingToolError: pyarrow is not installed.
    """
    if out.exists():
        raise MisuseError(f"{out} is there already. Choose another --out, or remove it.")
    pool = gather(works, settings, tell)
    train, validation = split(pool.places, settings)
    if not train:
        raise MisuseError(_nothing(pool))
    draft = out.with_name(f".{out.name}.tmp")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    recipe = settings.recipe.name if settings.recipe else ""
    for name, places in ((TRAIN, train), (VALIDATION, validation)):
        if not places:  # an empty split cannot be loaded
            continue
        with writing(draft / name) as write:
            for reasoning in _fetch(works, places):
                write(make_sample(reasoning, recipe))
        tell(f"{name}: {len(places)} samples")
    record = _record(works, settings, pool, train, validation)
    write_by_rename(draft / CARD, data_card(record))
    write_by_rename(draft / RECORD, record.model_dump_json(indent=1) + "\n")
    draft.replace(out)
    return record


def gather(works: Sequence[Path], settings: BuildSettings, tell: Callable[[str], None] = lambda text: None) -> Pool:
    """Check every accepted reasoning of work folders and keep the places of the good ones."""
    pool = Pool()
    ids: set[str] = set()
    for number, work in enumerate(works):
        for offset, reasoning in _reasonings(work):
            if reasoning.outcome != "accepted":
                continue
            pool.records += 1
            if why := _refused(reasoning, settings, ids):
                pool.dropped[why] += 1
                continue
            ids.add(reasoning.id)
            pool.places.append(_place(number, offset, reasoning))
            if len(ids) % 1000 == 0:
                tell(f"{len(ids)} good samples of {pool.records} records")
    return pool


def split(places: Sequence[Place], settings: BuildSettings) -> tuple[list[Place], list[Place]]:
    """Training and validation samples: no problem is in both.

    Raises:
        MisuseError: The recipe cannot be filled.
    """
    ordered = sorted(places, key=lambda place: place.id)  # not by the order in which threads wrote them
    recipe = settings.recipe
    if recipe:
        train = choose(recipe, [place for place in ordered if place.problem in recipe.problems])
        return train, [place for place in ordered if place.problem in recipe.validation]
    held_out = _held_out({place.problem for place in ordered}, settings)
    random.Random(settings.seed).shuffle(ordered)
    return (
        [place for place in ordered if place.problem not in held_out],
        [place for place in ordered if place.problem in held_out],
    )


def _held_out(problems: set[str], settings: BuildSettings) -> set[str]:
    """At least one problem, unless there is but one or none is asked for."""
    if len(problems) < 2 or settings.validation_share <= 0:
        return set()
    number = min(len(problems) - 1, max(1, round(settings.validation_share * len(problems))))
    return set(random.Random(settings.seed).sample(sorted(problems), number))


def _refused(reasoning: Reasoning, settings: BuildSettings, ids: set[str]) -> str:
    """Why a record gives no sample; empty when it does. The cheap reasons first."""
    pair, recipe = reasoning.pair, settings.recipe
    method = recipe.method if recipe else settings.method
    if reasoning.method != method:
        return "of the other method"
    if recipe and not eligible(recipe, method, pair.problem.env, pair.error_class, reasoning.teacher):
        return "not in the recipe"
    if reasoning.id in ids:
        return "there twice"
    if why := objection(pair):
        return f"unverified: {why}"
    if pair.kept < settings.min_kept:
        return "rewritten rather than repaired"
    if not reasoning.text.strip() or SPECIAL_TOKEN.search(reasoning.text):
        return "forbidden token in the reasoning" if reasoning.text.strip() else "empty reasoning"
    if not can_be_submitted(pair):
        return "the agent would not find the kernel in the answer"
    return settings.student.objection(make_sample(reasoning).messages) if settings.student else ""


def _place(work: int, offset: int, reasoning: Reasoning) -> Place:
    pair = reasoning.pair
    return Place(
        work,
        offset,
        reasoning.id,
        pair.problem.env,
        pair.error_class,
        pair.round,
        reasoning.teacher,
        pair.made_by,
        pair.broken.contract if pair.broken else "",
    )


def _reasonings(work: Path) -> Iterator[tuple[int, Reasoning]]:
    """Every reasoning with its place in the file; a last line that a crash cut off is passed over."""
    path = work / REASONS
    if not path.exists():
        raise MisuseError(f"{work} has no {REASONS}. `ptxgym fixit reason {work}` writes it.")
    with path.open("rb") as file:
        offset = 0
        for number, line in enumerate(file, start=1):
            try:
                if line.strip():
                    yield offset, Reasoning.model_validate_json(line)
            except ValidationError as error:
                if not line.endswith(b"\n"):
                    return
                raise MisuseError(f"{path}:{number} is no Reasoning: {error.errors()[0]['msg']}.") from None
            offset += len(line)


def _fetch(works: Sequence[Path], places: Sequence[Place]) -> Iterator[Reasoning]:
    files = [(work / REASONS).open("rb") for work in works]
    try:
        for place in places:
            files[place.work].seek(place.offset)
            yield Reasoning.model_validate_json(files[place.work].readline())
    finally:
        for file in files:
            file.close()


def _record(
    works: Sequence[Path], settings: BuildSettings, pool: Pool, train: list[Place], validation: list[Place]
) -> BuildRecord:
    rows = Counter(
        (name, p.problem, p.error_class, p.round, p.reasoning, p.made_by, p.contract)
        for name, places in (("train", train), ("validation", validation))
        for p in places
    )
    fields = ("split", "problem", "error_class", "round", "reasoning", "made_by", "contract")
    return BuildRecord(
        created=now(),
        works=tuple(work.name for work in works),
        method=settings.recipe.method if settings.recipe else settings.method,
        recipe=settings.recipe,
        tokenizer=settings.student.name if settings.student else "",
        max_tokens=settings.student.max_tokens if settings.student else 0,
        min_kept=settings.min_kept,
        seed=settings.seed,
        records=pool.records,
        dropped=dict(pool.dropped.most_common()),
        unchosen=len(pool.places) - len(train) - len(validation),
        counts=tuple(Count(**dict(zip(fields, row, strict=True)), samples=n) for row, n in sorted(rows.items())),
    )


def _nothing(pool: Pool) -> str:
    reasons = "; ".join(f"{number} {why}" for why, number in pool.dropped.most_common(5))
    return f"Of {pool.records} accepted reasonings none gives a sample{f' ({reasons})' if reasons else ''}."
