"""Policies without a language model: they need no endpoint and no key, and run everything else.

*Replay* submits the files of a folder, in order. *Oracle* submits the example kernel of the instance. *Mutate* submits
that kernel with a few random changes, most of which break it in one way or another.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym

from baselines.fixit.sources import same_code, without_comments
from baselines.mini_ptx_agent import Answer, Message, Model, ModelPolicy, ScriptedModel, SetupError, Usage
from baselines.mini_ptx_agent.scripted_model import turns_taken

EXAMPLES = Path(__file__).parent.parent / "examples" / "kernels"

NO_EXAMPLES = "The example kernels are part of a checkout: run this from a clone of the repository."

_FOLDERS = {"H100": "hopper", "B200": "blackwell"}
_INSTANCE = re.compile(r"PTXBench-(?P<operator>\w+)-(?P<gpu>\w+?)(?P<variant>-\w+)?(?:-v\d+)?")


def replay(*, kernels: Path) -> ModelPolicy:
    """Submit every ``.cu`` file of a folder, in the order of the numbers in their names.

    Args:
        kernels: The folder. A folder in it that is named like the instance has that instance's own files.

    Raises:
        SetupError: It holds no such file.
    """
    if not any(kernels.rglob("*.cu")):
        raise SetupError(f"There is no .cu file in {kernels}.")

    def model_for(env: gym.Env[Any, str], seed: int) -> ScriptedModel:
        own = kernels / _instance(env)
        files = sorted((own if own.is_dir() else kernels).glob("*.cu"), key=_natural_order)
        return ScriptedModel([submit(_read(file)) for file in files])

    return ModelPolicy(model_for, settings={"kernels": str(kernels.resolve())})


@dataclass(frozen=True, slots=True)
class ExamplePolicy(ModelPolicy):
    """A policy that begins with the example kernel of the instance."""

    kernels: Path = EXAMPLES

    def check(self, envs: Sequence[str]) -> None:
        """Refuse a run in which there is nothing to submit.

        Raises:
            SetupError: No instance has an example, or there are no examples at all.
        """
        if not any(self.kernels.rglob("*.cu")):
            raise SetupError(NO_EXAMPLES if self.kernels == EXAMPLES else f"There is no .cu file in {self.kernels}.")
        if not any(example(env, self.kernels) is not None for env in envs):
            raise SetupError(f"{_listed(envs)} no example kernel in {self.kernels}, so there is nothing to play.")


def oracle(*, kernels: Path = EXAMPLES) -> ModelPolicy:
    """Submit the example kernel of the instance, once.

    Args:
        kernels: The folder of examples, ``<architecture>/<operator>.cu``.
    """

    def model_for(env: gym.Env[Any, str], seed: int) -> Model:
        source = example(_instance(env), kernels)
        return ScriptedModel([submit(source)]) if source else _nothing_for(env)

    return ExamplePolicy(model_for, settings={"kernels": str(kernels.resolve())}, kernels=kernels)


def mutate(*, kernels: Path = EXAMPLES) -> ModelPolicy:
    """Submit the example kernel with random changes: other constants, lost, doubled and swapped lines.

    Args:
        kernels: The folder of examples.
    """

    def model_for(env: gym.Env[Any, str], seed: int) -> Model:
        source = example(_instance(env), kernels)
        return MutatingModel(source, seed) if source else _nothing_for(env)

    return ExamplePolicy(model_for, settings={"kernels": str(kernels.resolve())}, kernels=kernels)


@dataclass(frozen=True, slots=True)
class MutatingModel:
    """Answers each turn with the same source, changed at random; what it answers depends on seed and turn alone.

    Code is changed, comments are not: a mutant that differs in a comment alone would be the kernel itself.
    """

    source: str
    seed: int

    def query(self, messages: Sequence[Message]) -> Answer:
        """A changed source."""
        generator = random.Random(f"{self.seed}/{turns_taken(messages)}")
        lines = self.source.split("\n")
        for _ in range(_TRIES):
            for mutation in generator.choices(_MUTATIONS, _WEIGHTS, k=generator.randint(1, 2)):
                mutation(lines, generator)
            if not same_code("\n".join(lines), self.source):  # two equal lines may have changed places
                break
        return submit("\n".join(lines))


def submit(source: str) -> Answer:
    """An answer that submits a source as it is, with no cost."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", source)), default=0))
    return Answer(f"{fence}cpp\n{source}\n{fence}", usage=Usage(cost=0.0), source=source)


def example(instance: str, kernels: Path = EXAMPLES) -> str | None:
    """The example kernel of an instance, or None where there is none."""
    if (parts := _INSTANCE.fullmatch(instance)) and (folder := _FOLDERS.get(parts["gpu"])):
        name = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", parts["operator"]).lower()
        path = kernels / folder / f"{name}{(parts['variant'] or '').lower().replace('-', '_')}.cu"
        if path.exists():
            return _read(path)
    return None


def _change_a_number(lines: list[str], generator: random.Random) -> None:
    code = _code_of(lines)
    if places := [n for n, line in enumerate(code) if _NUMBER.search(line)]:
        at = generator.choice(places)
        number = generator.choice(list(_NUMBER.finditer(code[at])))
        changed = max(0, generator.choice([int(number[0]) - 1, int(number[0]) + 1, int(number[0]) * 2]))
        lines[at] = f"{lines[at][: number.start()]}{changed}{lines[at][number.end() :]}"


def _lose_a_line(lines: list[str], generator: random.Random) -> None:
    if places := _lines_of_code(lines):
        del lines[generator.choice(places)]


def _double_a_line(lines: list[str], generator: random.Random) -> None:
    if places := _lines_of_code(lines):
        at = generator.choice(places)
        lines.insert(at, lines[at])


def _swap_two_lines(lines: list[str], generator: random.Random) -> None:
    places = _lines_of_code(lines)
    if len(places) > 1:
        at = generator.randrange(len(places) - 1)
        first, second = places[at : at + 2]
        lines[first], lines[second] = lines[second], lines[first]


def _code_of(lines: list[str]) -> list[str]:
    """The lines with blanks for their comments, so that places in one are places in the other."""
    return without_comments("\n".join(lines)).split("\n")


def _lines_of_code(lines: list[str]) -> list[int]:
    return [number for number, line in enumerate(_code_of(lines)) if line.strip()]


_NUMBER = re.compile(r"\b\d+\b")
_MUTATIONS: tuple[Callable[[list[str], random.Random], None], ...] = (
    _change_a_number,
    _lose_a_line,
    _double_a_line,
    _swap_two_lines,
)
_TRIES = 10
_WEIGHTS = (6, 1, 1, 1)
"""Constants above all: a line's loss mostly ends at the compiler, which is the least interesting way to fail."""


def _nothing_for(env: gym.Env[Any, str]) -> ScriptedModel:
    return ScriptedModel([], done=f"There is no example kernel for {_instance(env)}.")


def _listed(envs: Iterable[str]) -> str:
    names = list(envs)
    return f"{names[0]} has" if len(names) == 1 else f"{', '.join(names)} have"


def _instance(env: gym.Env[Any, str]) -> str:
    return env.spec.id if env.spec else ""


def _natural_order(path: Path) -> tuple[list[tuple[int, str]], str]:
    """``kernel_v10`` behind ``kernel_v9``."""
    parts = re.split(r"(\d+)", path.stem)
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts], path.name


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(f"{path} cannot be read: {error}.") from None
