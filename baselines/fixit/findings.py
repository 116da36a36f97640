"""The simulator's findings in an evaluation."""

from __future__ import annotations

from collections.abc import Iterator

from baselines.fixit.contracts import Finding, read_finding
from ptxgym.evaluation import Evaluation, MemoryEvidence


def findings_of(evaluation: Evaluation) -> list[Finding]:
    """What the simulator found, errors first; nothing where another tool checked memory.

    Taken from the checker's own reports and the failed stage's sentence, which a candidate cannot write.
    """
    return [finding for text in _texts(evaluation) if (finding := read_finding(text))]


def _texts(evaluation: Evaluation) -> Iterator[str]:
    for stage in evaluation.stages:
        yield stage.message
        if isinstance(stage.evidence, MemoryEvidence):
            for report in stage.evidence.reports:
                yield from report.reports
