"""MiniPTXAgent: a language model, one environment, up to eight submissions, everything said kept in view.

>>> import gymnasium as gym, ptxgym
>>> from baselines.mini_ptx_agent import MiniPTXAgent, ScriptedModel
>>> env = gym.make("PTXBench-GEMM-H100", device="none")
>>> MiniPTXAgent(env, ScriptedModel(["I cannot do this."])).run().reason
'policy_done'
"""

from baselines.mini_ptx_agent.agent import MiniPTXAgent, Turn
from baselines.mini_ptx_agent.conversation import Answer, Message, Model, Usage
from baselines.mini_ptx_agent.endpoint import EndpointModel
from baselines.mini_ptx_agent.exceptions import (
    ContextFull,
    EndpointError,
    Interruption,
    PolicyDone,
    SetupError,
    Stop,
    UnusableAnswer,
)
from baselines.mini_ptx_agent.extraction import extract_kernel
from baselines.mini_ptx_agent.policy import ModelPolicy, endpoint_policy
from baselines.mini_ptx_agent.scripted_model import ScriptedModel
from baselines.mini_ptx_agent.settings import ModelSettings, load_settings

__all__ = [
    "Answer",
    "ContextFull",
    "EndpointError",
    "EndpointModel",
    "Interruption",
    "Message",
    "MiniPTXAgent",
    "Model",
    "ModelPolicy",
    "ModelSettings",
    "PolicyDone",
    "ScriptedModel",
    "SetupError",
    "Stop",
    "Turn",
    "UnusableAnswer",
    "Usage",
    "endpoint_policy",
    "extract_kernel",
    "load_settings",
]
