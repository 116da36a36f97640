"""Composing prompts: a task's statement and as much knowledge as a level names, with a variant's hint.

Levels are cumulative. ``none``: the statement alone. ``parameters``: and the GPU's limits. ``templates``: and the
wrapper headers. ``contracts``: and what must hold, with example kernels. ``full``: and the operator's schedule.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from knowledge.headers import MAIN, quote
from knowledge.tokens import estimate_tokens
from ptxgym.tasks import Task

Level = Literal["none", "parameters", "templates", "contracts", "full"]
LEVELS: tuple[Level, ...] = get_args(Level)
"""From least to most."""

_FOLDER = Path(__file__).parent
_HEADING = """\
# Wrappers

These headers are on the include path: write `#include <ptxgym/{main}.cuh>` and `using namespace ptxgym;`, or copy
what you need. Every function has been compiled for sm_{target} and executed.

```cuda
{code}```
"""


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a prompt."""

    name: str
    """What it is: ``statement``, ``parameters``, ``templates``, ``contracts``, ``examples``, ``schedule``, ``hint``."""
    text: str

    @property
    def tokens(self) -> int:
        """An estimate, see :func:`knowledge.estimate_tokens`."""
        return estimate_tokens(self.text)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A composed prompt."""

    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """The whole prompt."""
        return "\n".join(part.text.rstrip() + "\n" for part in self.parts)

    @property
    def tokens(self) -> dict[str, int]:
        """Tokens by part, in order."""
        return {part.name: part.tokens for part in self.parts}

    @property
    def total(self) -> int:
        """Tokens of all parts."""
        return sum(self.tokens.values())


def variants(task: Task) -> tuple[str, ...]:
    """The variants of a task: ``base``, then its hints by name; attention has the expert's rules as well."""
    folder, operator = _FOLDER / "operators" / _architecture(task), operator_of(task)
    hints = sorted(path.stem.split(".")[1] for path in folder.glob(f"{operator}.*.md"))
    return ("base", *hints, *(("expert",) if operator != "gemm" else ()))


def operator_of(task: Task) -> str:
    """The schedule that a task follows: ``gemm``, ``attention_forward`` or ``attention_backward``."""
    name = task.operator.name
    return "gemm" if name == "GEMM" else "attention_backward" if "Backward" in name else "attention_forward"


def knowledge_parts(task: Task, level: Level = "full", variant: str = "base", gpu: str | None = None) -> list[Part]:
    """The knowledge of a level, without the task's statement.

    Args:
        task: It decides the architecture and the operator.
        level: How much; see the module.
        variant: ``base``, or the name of a hint that is added whatever the level.
        gpu: The GPU whose limits are given, when it is not the task's own: ``H200``.

    Raises:
        ValueError: There is no such level, variant or GPU.
    """
    _one_of("level", level, LEVELS)
    _one_of("variant", variant, variants(task))
    architecture, operator = _architecture(task), operator_of(task)
    depth = LEVELS.index(level)
    folder = _FOLDER / architecture
    parts: list[Part] = []
    if depth >= LEVELS.index("parameters"):
        pages = {path.stem.upper(): path for path in folder.glob("[hb][0-9]*.md")}
        wanted = gpu or task.architecture.gpu
        _one_of("gpu", wanted, tuple(sorted(pages)))
        parts.append(Part("parameters", _read(pages[wanted])))
    if depth >= LEVELS.index("templates"):
        parts.append(Part("templates", _templates(task)))
    if depth >= LEVELS.index("contracts"):
        parts.append(Part("contracts", _read(_FOLDER / "contracts.md") + "\n" + _read(folder / "contracts.md")))
        parts.append(Part("examples", _examples(folder / "examples", operator)))
    if depth >= LEVELS.index("full"):
        parts.append(Part("schedule", _read(_FOLDER / "operators" / architecture / f"{operator}.md")))
    if variant != "base":
        parts.append(Part("hint", "# Hint\n\n" + _hint(architecture, operator, variant)))
    return parts


def prompt(
    task: Task, level: Level = "full", variant: str = "base", *, statement: str | None = None, gpu: str | None = None
) -> Prompt:
    """A task's whole prompt.

    Args:
        task: What is asked.
        level: How much knowledge.
        variant: ``base`` or a hint.
        statement: The task's statement; by default that of the environment with its default options.
        gpu: As in :func:`knowledge_parts`.

    Raises:
        ValueError: There is no such level, variant or GPU.
    """
    text = _default_statement(task) if statement is None else statement
    return Prompt((Part("statement", text), *knowledge_parts(task, level, variant, gpu)))


def _default_statement(task: Task) -> str:
    from ptxgym.envs.prompt import task_prompt
    from ptxgym.evaluation import EvaluationOptions

    return task_prompt(task, EvaluationOptions(), target_speedup=1.2, max_turns=8, knowledge="")


def _templates(task: Task) -> str:
    name = task.architecture.name
    return _HEADING.format(main=MAIN[name], target=task.architecture.target, code=quote(name))


def _examples(folder: Path, operator: str) -> str:
    """The operator's example kernel and the architecture's others that belong to no operator."""
    own = "gemm" if operator == "gemm" else "attention"
    names = [own, *sorted(path.stem for path in folder.glob("*.cu") if path.stem not in ("gemm", "attention"))]
    blocks = (f"```cuda\n{_read(folder / f'{name}.cu')}```" for name in names)
    return "# Examples\n\nComplete, and run by the tests; simple rather than fast.\n\n" + "\n\n".join(blocks) + "\n"


def _hint(architecture: str, operator: str, variant: str) -> str:
    if variant == "expert":
        return _read(_FOLDER / "operators" / "attention.expert.md")
    return _read(_FOLDER / "operators" / architecture / f"{operator}.{variant}.md")


def _architecture(task: Task) -> str:
    return task.architecture.name.lower()


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8").strip() + "\n"


def _one_of(what: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{what} must be one of {', '.join(allowed)}, not {value!r}")
