"""Prompt variants: what stands behind a task's statement, by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from ptxgym.errors import MisuseError
from ptxgym.tasks import Task, get_task


def choose_variants(env: str, count: int, prompts: Path | None = None, knowledge: str = "none") -> dict[str, str]:
    """Variant name to the text behind the statement of an instance.

    Args:
        env: The instance.
        count: How many.
        prompts: A folder with one ``.md`` file per variant; by default those of the knowledge pack: ``base``, then
            those with a hint.
        knowledge: A level of the knowledge pack, or a text of your own that stands before every variant's.

    Raises:
        MisuseError: There are fewer, or the folder cannot be read.
    """
    import knowledge as pack

    task = get_task(env)
    hints = _from_folder(prompts) if prompts else dict.fromkeys(pack.variants(task))
    if not 1 <= count <= len(hints):
        raise MisuseError(f"{env} has {len(hints)} prompt variants ({', '.join(hints)}); --variants {count} cannot be.")
    chosen = list(hints.items())[:count]
    if knowledge in pack.LEVELS:
        return {name: _join(_pack(task, knowledge, name if hint is None else "base"), hint) for name, hint in chosen}
    return {name: _join(knowledge, _pack(task, "none", name) if hint is None else hint) for name, hint in chosen}


def _pack(task: Task, level: str, variant: str) -> str:
    import knowledge as pack

    return "\n".join(part.text for part in pack.knowledge_parts(task, cast("Any", level), variant))


def _join(*texts: str | None) -> str:
    return "\n".join(text.strip() for text in texts if text and text.strip())


def _from_folder(folder: Path) -> dict[str, str | None]:
    try:
        found: dict[str, str | None] = {p.stem: p.read_text(encoding="utf-8") for p in sorted(folder.glob("*.md"))}
    except (OSError, UnicodeDecodeError) as error:
        raise MisuseError(f"The prompts in {folder} cannot be read: {error}.") from None
    if not found:
        raise MisuseError(f"There is no .md file in {folder}, or no such folder; --prompts takes one file per variant.")
    return found
