"""Recipes: what a data set is made of, declared in a small TOML file, and how samples are chosen by one."""

from __future__ import annotations

import difflib
import random
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, TypeVar

from pydantic import Field, ValidationError

from baselines.fixit.mine import ERROR_CLASSES, MineSettings
from baselines.fixit.records import Method
from ptxgym.errors import MisuseError
from ptxgym.tasks import TASKS
from ptxgym.toolchain import Record

SHIPPED = Path(__file__).with_name("recipes")

ANY = "any"
"""As a recipe's reasoning: whoever wrote it."""


class MinePart(Record):
    """How failures are mined for a recipe."""

    last_turn: int = Field(5, ge=1)
    """Later turns are left out."""
    per_problem: int = Field(0, ge=0)
    """At most so many per problem; 0 for all. With ``balance = "before"`` exactly so many, and 0 means as many as the
    poorest problem has."""
    per_stratum: int = Field(0, ge=0)
    """At most so many per problem, class and turn; 0 for all."""


class Recipe(Record):
    """What a data set is made of."""

    name: str
    method: Method
    problems: tuple[str, ...] = Field(min_length=1)
    """Instances whose samples are trained on."""
    validation: tuple[str, ...] = ()
    """Instances whose samples are held out; none of them may be among ``problems``."""
    classes: tuple[str, ...] = ()
    """Error classes; all when empty."""
    balance: Literal["none", "before", "after"] = "none"
    """``before``: equally many failures per problem are mined. ``after``: equally many samples per cell are taken."""
    over: tuple[Literal["problem", "class"], ...] = ("problem",)
    """What the cells of ``balance = "after"`` are."""
    reasoning: str = ANY
    """The reasoning teacher's name, ``finding``, or ``any``."""
    size: int = Field(0, ge=0)
    """Samples to train on; 0 for as many as there are."""
    seed: int = 0
    rounds: tuple[float, ...] = ()
    """Shares of the mining rounds, the newest first; empty takes them as they come."""
    mine: MinePart = MinePart()
    note: str = ""

    def mining(self, round_: int = 0) -> MineSettings:
        """How ``mine`` is to choose for this recipe."""
        return MineSettings(
            classes=tuple(name for name in self.classes if name in ERROR_CLASSES) or ERROR_CLASSES,
            problems=self.problems + self.validation,
            last_turn=self.mine.last_turn,
            per_stratum=self.mine.per_stratum,
            per_problem=self.mine.per_problem,
            balanced=self.problems if self.balance == "before" and self.method == "fixit" else (),
            seed=self.seed,
            round=round_,
            passed=self.method == "kernelgen",
        )


class Entry(Protocol):
    """A sample that can be chosen."""

    @property
    def problem(self) -> str:
        """The instance."""

    @property
    def error_class(self) -> str:
        """Of its failure."""

    @property
    def round(self) -> int:
        """Of its mining."""


AnyEntry = TypeVar("AnyEntry", bound=Entry)


class Cell(NamedTuple):
    """What is given a number of samples of its own; empty fields are not told apart."""

    problem: str = ""
    error_class: str = ""
    round: int | None = None

    @property
    def text(self) -> str:
        """In words."""
        words = [self.problem, f"class {self.error_class}" * bool(self.error_class)]
        words += [f"round {self.round}"] * (self.round is not None)
        return ", ".join(word for word in words if word) or "any problem"


@dataclass(frozen=True)
class Lack:
    """A cell that has too few samples."""

    cell: Cell
    needed: int
    present: int

    @property
    def text(self) -> str:
        """A sentence."""
        lacking = self.needed - self.present
        return f"{self.needed} of {self.cell.text} are needed and {self.present} are there: {lacking} lack."


def load_recipe(name: str) -> Recipe:
    """A shipped recipe by name, or one of your own by its path.

    Raises:
        MisuseError: There is none, or it has a wrong field.
    """
    path = Path(name)
    if not path.suffix and not path.exists():
        path = SHIPPED / f"{name}.toml"
        if not path.exists():
            nearest = difflib.get_close_matches(name, shipped(), n=1, cutoff=0.3)
            hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
            raise MisuseError(f"There is no recipe {name!r}.{hint} There are {', '.join(shipped())}, or a .toml file.")
    try:
        recipe = Recipe.model_validate({"name": path.stem, **tomllib.loads(path.read_text(encoding="utf-8"))})
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise MisuseError(f"The recipe {path} cannot be read: {error}.") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise MisuseError(f"The recipe {path} has a wrong {where}: {first['msg']}.") from None
    _check(recipe, path)
    return recipe


def shipped() -> list[str]:
    """The names of the shipped recipes."""
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def differences(a: Recipe, b: Recipe) -> dict[str, tuple[object, object]]:
    """Fields in which two recipes differ, name and note apart; a nested field as ``mine.per_problem``."""
    left, right = _flat(a.model_dump(mode="json")), _flat(b.model_dump(mode="json"))
    return {
        field: (left[field], right[field])
        for field in left
        if field not in ("name", "note") and left[field] != right[field]
    }


def eligible(recipe: Recipe, method: str, problem: str, error_class: str, reasoning: str) -> bool:
    """Whether a sample may be chosen, for training or validation."""
    return (
        method == recipe.method
        and (problem in recipe.problems or problem in recipe.validation)
        and (not recipe.classes or error_class in recipe.classes or recipe.method == "kernelgen")
        and recipe.reasoning in (ANY, reasoning)
    )


def quotas(recipe: Recipe, entries: Sequence[Entry]) -> dict[Cell, int]:
    """How many samples each cell is to give. Without a declared size, as many as the poorest cell allows."""
    weights = _weights(recipe, entries)
    size = recipe.size
    if not size:
        present = Counter(cell_of(recipe, entry) for entry in entries)
        size = min((int(present[cell] / weight) for cell, weight in weights.items()), default=0)
    return _apportion(size, weights)


def lacks(recipe: Recipe, entries: Sequence[Entry]) -> list[Lack]:
    """Cells that have fewer samples than they are to give; those that have none at all included."""
    present = Counter(cell_of(recipe, entry) for entry in entries)
    wanted = quotas(recipe, entries)
    least = 0 if recipe.size else 1  # an empty cell would make the whole data set empty
    return [
        Lack(cell, max(number, least), present[cell])
        for cell, number in wanted.items()
        if present[cell] < max(number, least)
    ]


def choose(recipe: Recipe, entries: Sequence[AnyEntry]) -> list[AnyEntry]:
    """The samples to train on, in a seeded order.

    Args:
        recipe: The recipe.
        entries: Eligible samples of its ``problems``, in an order that does not change.

    Raises:
        MisuseError: A cell has too few; the message says which lacks how many.
    """
    if missing := lacks(recipe, entries):
        raise MisuseError("\n".join([f"The recipe {recipe.name} cannot be filled.", *(lack.text for lack in missing)]))
    generator = random.Random(recipe.seed)
    by_cell: dict[Cell, list[AnyEntry]] = defaultdict(list)
    for entry in entries:
        by_cell[cell_of(recipe, entry)].append(entry)
    chosen = [entry for cell, n in quotas(recipe, entries).items() for entry in generator.sample(by_cell[cell], n)]
    generator.shuffle(chosen)
    return chosen


def cell_of(recipe: Recipe, entry: Entry) -> Cell:
    """The cell that a sample belongs to."""
    after = recipe.balance == "after"
    return Cell(
        entry.problem if after and "problem" in recipe.over else "",
        entry.error_class if after and "class" in recipe.over else "",
        entry.round if recipe.rounds else None,
    )


def _weights(recipe: Recipe, entries: Iterable[Entry]) -> dict[Cell, float]:
    after = recipe.balance == "after"
    problems = recipe.problems if after and "problem" in recipe.over else ("",)
    classes = (recipe.classes or ERROR_CLASSES) if after and "class" in recipe.over else ("",)
    rounds = _rounds(recipe, {entry.round for entry in entries})
    share = 1 / (len(problems) * len(classes))
    return {
        Cell(problem, error_class, round_): share * part
        for problem in problems
        for error_class in classes
        for round_, part in rounds.items()
        if part
    }


def _rounds(recipe: Recipe, present: set[int]) -> Mapping[int | None, float]:
    """Round to share, the newest first; shares of rounds that are not there yet go to the others."""
    if not recipe.rounds:
        return {None: 1.0}
    shares = dict(zip(sorted(present, reverse=True), recipe.rounds, strict=False))
    total = sum(shares.values())
    return {round_: share / total for round_, share in shares.items()} if total else {None: 1.0}


def _apportion(size: int, weights: Mapping[Cell, float]) -> dict[Cell, int]:
    """Whole numbers that sum to ``size``, by the largest remainders; the order of the cells breaks ties."""
    exact = {cell: size * weight for cell, weight in weights.items()}
    whole = {cell: int(value + 1e-9) for cell, value in exact.items()}
    by_remainder = sorted(exact, key=lambda cell: whole[cell] - exact[cell])
    for cell in by_remainder[: size - sum(whole.values())]:
        whole[cell] += 1
    return whole


def _check(recipe: Recipe, path: Path) -> None:
    for problem in recipe.problems + recipe.validation:
        if problem not in TASKS:
            nearest = difflib.get_close_matches(problem, TASKS, n=1, cutoff=0.3)
            hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
            raise MisuseError(f"The recipe {path} names an unknown problem {problem!r}.{hint}")
    if both := set(recipe.problems) & set(recipe.validation):
        raise MisuseError(f"The recipe {path} both trains on and holds out {sorted(both)[0]}.")
    if any(share < 0 for share in recipe.rounds) or (recipe.rounds and not sum(recipe.rounds)):
        raise MisuseError(f"The recipe {path} has rounds {list(recipe.rounds)}; they should be shares above 0.")


def _flat(fields: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for name, value in fields.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat
