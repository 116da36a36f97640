"""Whether a kernel is verified: decided from the environment's record alone, never from what anybody says."""

from __future__ import annotations

import hashlib
import math

from baselines.fixit.records import Pair
from ptxgym.evaluation import Evaluation, StageName
from ptxgym.trajectories import EvaluationRecord

NEEDED: tuple[StageName, ...] = ("source", "compile", "memory", "correctness", "instructions")
"""Stages that must have passed. A simulator gives no times, so that timing may be skipped there."""


def is_verified(evaluation: Evaluation) -> bool:
    """Whether the environment passed it, the target instructions included. A stage that was left out is no pass."""
    return evaluation.status == "passed" and all(evaluation.stage(name).status == "passed" for name in NEEDED)


def fault_of_the_machine(evaluation: Evaluation) -> str:
    """Why this machine could not judge, in a sentence; empty when it could, or when the kernel is to blame.

    A kernel that refuses every shape that can be run here leaves stages unknown as well, and asking again is no use.
    """
    unknown = next((stage for stage in evaluation.stages if stage.status == "unknown"), None)
    if unknown is None or unknown.reason != "infrastructure":
        return ""
    return f"{unknown.stage} could not be judged here: {unknown.message}"


def is_fast(evaluation: Evaluation, min_speedup: float) -> bool:
    """Whether it reaches a speedup; always, where nothing was timed."""
    return math.isnan(evaluation.speedup) or evaluation.speedup >= min_speedup


def objection(pair: Pair) -> str:
    """Why a pair may not enter a data set; empty when it may.

    The record must say that exactly this text passed, for exactly this problem.
    """
    record = pair.verification
    evaluation = record.evaluation
    if evaluation.task != pair.problem.env or record.task != pair.problem.env:
        return "verified for another task"
    if record.source != pair.kernel:
        return "verified with another source"
    if evaluation.source_sha256 != hashlib.sha256(pair.kernel.encode("utf-8", "surrogatepass")).hexdigest():
        return "verified with another source"
    if not is_verified(evaluation):
        return f"not verified: {evaluation.status}"
    if pair.failure and pair.failure.problem.env != pair.problem.env:
        return "mends another task's failure"
    if pair.failure and pair.failure.source == pair.kernel:
        return "the failing kernel itself"
    return ""


def record_hash(record: EvaluationRecord) -> str:
    """Names a verification in a data set's metadata."""
    return hashlib.sha256(record.model_dump_json().encode("utf-8")).hexdigest()
