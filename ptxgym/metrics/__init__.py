"""What the results of runs add up to: pure functions over :class:`Turn` records.

Nothing here reads a file, knows a policy, or depends on where a turn came from: this project's own runs and the
original's published table go through the same functions. Not promised: that two numbers were judged alike. A turn
judged on the simulator is right on probe shapes only, and carries no speedup.
"""

from ptxgym.metrics.bootstrap import Interval, correctness_interval, difference_interval, peak_interval
from ptxgym.metrics.curves import THRESHOLDS, Curve, fast_inst_curve, fast_inst_share, fast_p_curve
from ptxgym.metrics.distributions import (
    OUTCOMES,
    Outcome,
    WorkFractions,
    outcome,
    outcomes_by_turn,
    reasoning_tokens,
    transitions,
    work_fractions,
)
from ptxgym.metrics.rates import Rate, peak_speedup, trajectory_success, turn_correctness
from ptxgym.metrics.turns import (
    BUDGET,
    RULES,
    Rule,
    Turn,
    architecture_of,
    make_turn,
    operator_of,
    qualifies,
    trajectories,
    usable_rules,
)

__all__ = [
    "BUDGET",
    "OUTCOMES",
    "RULES",
    "THRESHOLDS",
    "Curve",
    "Interval",
    "Outcome",
    "Rate",
    "Rule",
    "Turn",
    "WorkFractions",
    "architecture_of",
    "correctness_interval",
    "difference_interval",
    "fast_inst_curve",
    "fast_inst_share",
    "fast_p_curve",
    "make_turn",
    "operator_of",
    "outcome",
    "outcomes_by_turn",
    "peak_interval",
    "peak_speedup",
    "qualifies",
    "reasoning_tokens",
    "trajectories",
    "trajectory_success",
    "transitions",
    "turn_correctness",
    "usable_rules",
    "work_fractions",
]
