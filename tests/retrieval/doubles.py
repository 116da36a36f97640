"""Repairs that the tests make, and an environment that says what it is told to."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym

from ptxgym.tasks import get_task
from tests.fixit.train_doubles import write_parquet

RUN = 'extern "C" cudaError_t run(int M, cudaStream_t stream)'


def kernel(body: str) -> str:
    return f"// a comment about nothing\n{RUN} {{\n{body}\nreturn cudaSuccess;\n}}\n"


BROKEN = {
    "fence": 'asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global [%0];"); stage_no_fence();',
    "wait": 'asm volatile("mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;"); wrong_parity();',
    "commit": 'asm volatile("wgmma.commit_group.sync.aligned;"); forgot_to_wait();',
}
FIXED = {name: f"{body}\nmended_{name}();" for name, body in BROKEN.items()}
NOTES = {name: f"Repair: added: mended_{name}();" for name in BROKEN}


def row(name: str, thought: str | None = None) -> list[dict[str, str]]:
    reasoning = f"<think>First I read the code.\n\n{thought or f'The {name} was missing.'}</think>\n\n"
    return [
        {"role": "system", "content": "You write kernels."},
        {"role": "user", "content": "Write it."},
        {"role": "assistant", "content": f"```cpp\n{kernel(BROKEN[name])}```"},
        {"role": "user", "content": "INCORRECT: C is wrong."},
        {"role": "assistant", "content": f"{reasoning}```cpp\n{kernel(FIXED[name])}```"},
    ]


def write_repairs(path: Path, env: str = "PTXBench-GEMM-H100", **columns: Any) -> Path:
    """A data set of three repairs."""
    default = {"id": list(BROKEN), "metadata": [{"env": env}] * len(BROKEN)}
    return write_parquet(path, [row(name) for name in BROKEN], **{**default, **columns})


class Talking(gym.Env[Any, str]):
    """Fails every submission but one that says PASS."""

    def __init__(self, task: str = "PTXBench-GEMM-H100", valid: bool = True) -> None:
        self.task, self.valid = get_task(task), valid

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return {"feedback": "Write it.", "turn": 0}, {}

    def step(self, action: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        info = {"is_success": "PASS" in action, "valid": self.valid, "evaluation": SimpleNamespace()}
        return {"feedback": "No.", "turn": 1}, 0.0, False, False, info
