"""Checks that watch a batch; they subscribe to memory and barrier events and live in no semantics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ptxgym.devices.simulator.checks.clocks import ClockKeeper
from ptxgym.devices.simulator.checks.cluster import ClusterRules
from ptxgym.devices.simulator.checks.global_memory import UninitialisedGlobal
from ptxgym.devices.simulator.checks.intervals import IntervalRaces
from ptxgym.devices.simulator.checks.launch_control import launch_control_rules
from ptxgym.devices.simulator.checks.mbarriers import MbarrierRules
from ptxgym.devices.simulator.checks.phases import PhaseSlips
from ptxgym.devices.simulator.checks.pipeline import PipelineHazards
from ptxgym.devices.simulator.checks.registers import RegisterRules
from ptxgym.devices.simulator.checks.tensor_cores import WgmmaRules
from ptxgym.devices.simulator.checks.tensor_memory import TensorMemoryRules
from ptxgym.devices.simulator.checks.tensor_order import TensorOrder

CheckFactory = Callable[[Any], Any]


def default_checks() -> tuple[CheckFactory, ...]:
    """The checks that a launch runs with."""
    return (IntervalRaces, PipelineHazards, WgmmaRules, TensorMemoryRules, TensorOrder, ClusterRules, MbarrierRules,
            PhaseSlips, UninitialisedGlobal, RegisterRules, launch_control_rules, ClockKeeper)  # fmt: skip
