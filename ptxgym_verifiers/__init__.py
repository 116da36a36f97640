"""The name by which verifiers finds ptxgym's task set: it takes top-level modules only."""

from ptxgym.integrations.verifiers import KernelRolloutConfig, KernelRolloutEnv, KernelTaskset, KernelTasksetConfig

__all__ = ["KernelRolloutConfig", "KernelRolloutEnv", "KernelTaskset", "KernelTasksetConfig"]
