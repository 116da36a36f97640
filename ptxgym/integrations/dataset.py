"""A data set of tasks: all that a trainer needs, in an order of growing difficulty.

Rows work as they are with TRL (``prompt``, ``task_id``), verl (``data_source``, ``reward_model``, ``extra_info``),
SkyRL-gym (``env_class``) and anything that reads chat messages. Splits go by variant of operator, not by row: the rows
of one task differ only in their prompts, and a kernel for one of them answers them all.

* ``train``: the paper's ten instances, which are also the variants that the knowledge pack is written for.
* ``validation``: head dimension 64, the nearest variant: same algorithm, other tiles.
* ``test``: head dimension 96, whose rows do not fill a swizzle atom, and grouped queries, a layout of its own.

Whoever reports PTXBench's own numbers for a trained model trained on its instances, and should say so.
"""

from __future__ import annotations

import fnmatch
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from ptxgym.errors import MisuseError
from ptxgym.integrations.episode import Episode, EpisodeSettings, Phase
from ptxgym.integrations.extras import missing_extra
from ptxgym.tasks import TASKS, Task

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)
PHASES: tuple[Phase, ...] = get_args(Phase)
FAMILIES = ("gemm", "forward", "backward")
"""From easy to hard."""

Answers = Literal["text", "tool"]
"""How the policy submits: the kernel in its answer, or a call of the tool ``submit_kernel``."""

_TOOL_SYSTEM = """\
You write GPU kernels in CUDA C++ with inline PTX. Submit the whole of kernel.cu with the tool submit_kernel: it is
compiled, checked and timed, and you are told what was found. A later submission replaces the earlier ones, so it
repeats the whole file."""

Row = dict[str, Any]


def split_of(task: Task) -> Split:
    """The split that a task belongs to."""
    name = task.operator.name
    return "validation" if name.endswith("-D64") else "test" if name.endswith("-D96") or "GQA" in name else "train"


def family_of(task: Task) -> str:
    """``gemm``, ``forward`` or ``backward``."""
    name = task.operator.name
    return "backward" if "Backward" in name else "forward" if "Forward" in name else "gemm"


def make_rows(
    tasks: Iterable[str] = ("*",),
    *,
    splits: Sequence[str] = SPLITS,
    phases: Sequence[str] = PHASES,
    level: str = "parameters",
    variants: Sequence[str] = ("base",),
    answers: Answers = "text",
    max_turns: int = 8,
    device: str = "none",
) -> list[Row]:
    """The rows of a data set, from easy to hard.

    Args:
        tasks: Ids or patterns, e.g. ``PTXBench-*-H100``.
        splits: Those wanted.
        phases: Those wanted; see :data:`ptxgym.integrations.episode.Phase`.
        level: The knowledge behind every prompt (``ptxgym prompt --level``).
        variants: Names of prompt variants; a task without one is left out of it. ``all`` stands for every one.
        answers: How the policy submits; it decides the system message.
        max_turns: Submissions per episode, which prompts name.
        device: Where submissions will be judged, as for :class:`ptxgym.envs.KernelEnv`. With ``simulator`` no prompt
            promises a time; with ``none`` those of the phase ``workload`` do, as for a GPU that is elsewhere.

    Raises:
        MisuseError: A pattern matches no task, a name is unknown, or the device is not here.
    """
    import knowledge

    _check("split", splits, SPLITS)
    _check("phase", phases, PHASES)
    _check("level", [level], knowledge.LEVELS)
    chosen = [task for task in _matching(tasks) if split_of(task) in splits]
    chosen.sort(key=_difficulty)
    system = _system(answers)
    rows = [
        _row(task, phase, level, variant, system, max_turns, device)
        for family in FAMILIES
        for phase in PHASES
        for task in chosen
        if family_of(task) == family and phase in phases
        for variant in _variants(task, variants)
    ]
    for difficulty, row in enumerate(rows):
        row["difficulty"] = row["extra_info"]["index"] = difficulty
    return rows


def write_rows(rows: Iterable[Row], path: Path) -> None:
    """Write rows as ``.jsonl`` or ``.parquet``, whole or not at all.

    Raises:
        MisuseError: The name has another ending.
        MissingToolError: Parquet is asked for and pyarrow is not installed.
    """
    writers = {".jsonl": _write_jsonl, ".parquet": _write_parquet}
    if path.suffix not in writers:
        raise MisuseError(f"{path}: the name must end with {' or '.join(writers)}.")
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        writers[path.suffix](rows, partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def read_rows(path: Path) -> Iterator[Row]:
    """The rows of a ``.jsonl`` file."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def _matching(patterns: Iterable[str]) -> list[Task]:
    names: dict[str, None] = {}
    for pattern in patterns:
        found = fnmatch.filter(TASKS, pattern)
        if not found:
            raise MisuseError(f"No task matches {pattern!r}. `ptxgym list` shows all {len(TASKS)}.")
        names.update(dict.fromkeys(found))
    return [TASKS[name] for name in names]


def _difficulty(task: Task) -> tuple[int, ...]:
    """Within a family: Hopper first, plain before causal, and the head dimensions by how well they fit a tile."""
    name = task.operator.name
    suffix = name.partition("-")[2]
    order = ("", "D64", "D96").index(suffix)
    return (task.architecture.name != "Hopper", "GQA" in name, order, "Causal" in name)


def _variants(task: Task, wanted: Sequence[str]) -> list[str]:
    import knowledge

    known = knowledge.variants(task)
    unknown = set(wanted) - {"all"} - {name for other in TASKS.values() for name in knowledge.variants(other)}
    if unknown:
        raise MisuseError(f"No task has a prompt variant {min(unknown)!r}; this one has {', '.join(known)}.")
    return [name for name in known if "all" in wanted or name in wanted]


def _row(task: Task, phase: Phase, level: str, variant: str, system: str, max_turns: int, device: str) -> Row:
    from knowledge import estimate_tokens

    settings = EpisodeSettings.of(
        {
            "task": task.id,
            "device": device,
            "phase": phase,
            "knowledge": level,
            "variant": variant,
            "max_turns": max_turns,
        }
    )
    text = Episode(settings).prompt
    return {
        "id": f"{task.id}/{phase}/{level}/{variant}",
        "prompt": [{"role": "system", "content": system}, {"role": "user", "content": text}],
        "task_id": task.id,
        "phase": phase,
        "level": level,
        "variant": variant,
        "max_turns": max_turns,
        "split": split_of(task),
        "difficulty": 0,
        "family": family_of(task),
        "architecture": task.architecture.name,
        "prompt_tokens": estimate_tokens(system) + estimate_tokens(text),
        "env_class": "ptxgym",
        "data_source": "ptxgym",
        "reward_model": {"style": "rule", "ground_truth": task.id},
        "extra_info": {"index": 0, "task_id": task.id, "phase": phase, "max_turns": max_turns},
    }


def _system(answers: Answers) -> str:
    if answers == "tool":
        return _TOOL_SYSTEM
    from baselines.mini_ptx_agent.agent import SYSTEM  # so that a trained model is evaluated with what it was told

    return SYSTEM


def _check(what: str, names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise MisuseError(f"There is no {what} {name!r}; there are {', '.join(known)}.")


def _write_jsonl(rows: Iterable[Row], path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _write_parquet(rows: Iterable[Row], path: Path) -> None:
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise missing_extra("pyarrow", "trl") from None
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows)), path)
