"""Program × task × device → Evaluation: the stages, the comparisons, and the feedback text."""

from ptxgym.evaluation.evaluator import EvaluationOptions, Evaluator, clear_cache
from ptxgym.evaluation.feedback import MAX_FEEDBACK_CHARACTERS, feedback
from ptxgym.evaluation.pool import EvaluationPool, PoolLoad
from ptxgym.evaluation.pool_client import PoolClient
from ptxgym.evaluation.pool_server import PoolServer
from ptxgym.evaluation.records import (
    STAGES,
    STATUSES,
    CompileEvidence,
    CorrectnessEvidence,
    Evaluation,
    Evidence,
    InstructionEvidence,
    MemoryEvidence,
    OutputComparison,
    StageName,
    StageResult,
    StageStatus,
    Status,
    TimingEvidence,
)
from ptxgym.evaluation.stages import WORK_FRACTION_LIMIT

__all__ = [
    "MAX_FEEDBACK_CHARACTERS",
    "STAGES",
    "STATUSES",
    "WORK_FRACTION_LIMIT",
    "CompileEvidence",
    "CorrectnessEvidence",
    "Evaluation",
    "EvaluationOptions",
    "EvaluationPool",
    "Evaluator",
    "Evidence",
    "InstructionEvidence",
    "MemoryEvidence",
    "OutputComparison",
    "PoolClient",
    "PoolLoad",
    "PoolServer",
    "StageName",
    "StageResult",
    "StageStatus",
    "Status",
    "TimingEvidence",
    "clear_cache",
    "feedback",
]
