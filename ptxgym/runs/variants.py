"""Prompt variants: texts that stand behind a task's prompt."""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path

from ptxgym.errors import MisuseError
from ptxgym.tasks import Task, get_task


def choose_variants(env: str, count: int, prompts: Path | None = None, knowledge: str = "") -> dict[str, str]:
    """Variant name to the text behind the prompt of an instance.

    Args:
        env: The instance.
        count: How many.
        prompts: A folder with one ``.md`` file per variant; the shipped ones by default.
        knowledge: Stands before the text of every variant.

    Raises:
        MisuseError: There are fewer, or the folder cannot be read.
    """
    known = _from_folder(prompts) if prompts else _shipped(get_task(env))
    if not 1 <= count <= len(known):
        raise MisuseError(f"{env} has {len(known)} prompt variants ({', '.join(known)}); --variants {count} cannot be.")
    return {name: f"{knowledge}\n{known[name]}".strip() for name in list(known)[:count]}


def _shipped(task: Task) -> dict[str, str]:
    operator = task.operator.name
    family = "forward" if "Forward" in operator else "backward" if "Backward" in operator else "gemm"
    return _tables()[task.architecture.name.lower()][family]


@functools.cache
def _tables() -> dict[str, dict[str, dict[str, str]]]:
    return tomllib.loads(Path(__file__).with_name("variants.toml").read_text(encoding="utf-8"))


def _from_folder(folder: Path) -> dict[str, str]:
    try:
        return {file.stem: file.read_text(encoding="utf-8") for file in sorted(folder.glob("*.md"))}
    except (OSError, UnicodeDecodeError) as error:
        raise MisuseError(f"The prompts in {folder} cannot be read: {error}.") from None
