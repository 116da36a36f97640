"""Ten lines of Gymnasium: one kernel, judged on whatever this machine has."""

from pathlib import Path

import gymnasium as gym

import ptxgym  # noqa: F401 registers the environments

env = gym.make("PTXBench-GEMM-H100")
observation, info = env.reset(seed=0)
print(observation["feedback"])
source = (Path(__file__).parent / "kernels" / "hopper" / "gemm.cu").read_text()
observation, reward, terminated, truncated, info = env.step(source)
print(observation["feedback"])
print(f"reward {reward:.3f}, status {info['status']}, speedup {info['speedup']:.3f}")
env.close()
