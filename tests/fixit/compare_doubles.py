"""Runs as `ptxgym run` leaves them, whose outcomes the test chooses."""

from __future__ import annotations

from pathlib import Path

from ptxgym.runs.records import RunRecord
from tests.report.doubles import evaluation, turn, write_run

GEMM, FORWARD = "PTXBench-GEMM-H100", "PTXBench-MHAForward-H100"


def write_arm(folder: Path, model: str, adaptation: str, right: dict[str, list[int]], executed: bool = True) -> Path:
    """A run of one arm.

    Args:
        folder: Where to.
        model: What the endpoint called it.
        adaptation: What the run says of it.
        right: Task to how many of the eight turns of each trajectory are right.
        executed: Whether right ones executed a target instruction.
    """
    good = {task: evaluation(task=task, speedup=0.5, executed=executed, share=float(executed)) for task in right}
    bad = {task: evaluation("correctness", task=task) for task in right}
    records = [
        turn(number, "x", (good if number <= n else bad)[task], run=folder.name, model=model, trajectory=trajectory)
        for task, trajectories in right.items()
        for trajectory, n in enumerate(trajectories)
        for number in range(1, 9)
    ]
    write_run(folder, records)
    settings = RunRecord.model_validate_json((folder / "run.json").read_bytes())
    tagged = settings.model_copy(update={"policy_settings": {"adaptation": adaptation} if adaptation else {}})
    (folder / "run.json").write_text(tagged.model_dump_json(), encoding="utf-8")
    return folder
