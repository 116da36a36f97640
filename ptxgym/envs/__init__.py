"""The Gymnasium face: :class:`KernelEnv`, :class:`KernelVectorEnv`, and their spaces."""

from ptxgym.envs.kernel_env import KernelEnv
from ptxgym.envs.observation import Observation
from ptxgym.envs.spaces import Source, Unicode
from ptxgym.envs.vector_env import KernelVectorEnv

__all__ = ["KernelEnv", "KernelVectorEnv", "Observation", "Source", "Unicode"]
