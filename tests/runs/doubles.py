"""What the tests of runs share: records without a compiler, policies that need no model, and the command line."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

from baselines.mini_ptx_agent import ModelPolicy, ScriptedModel
from ptxgym.envs import KernelEnv
from ptxgym.runs import harness
from ptxgym.runs.progress import Watcher
from ptxgym.runs.records import Message, RunRecord, StopRecord, TurnRecord, Usage, read_turns
from ptxgym.runs.settings import new_run

ID = "PTXBench-GEMM-H100"
ROOT = Path(__file__).parent.parent.parent

REFUSED = "no kernel here"
"""Answered at once: the environment is asked with an empty source."""

COMMAND = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where pytest itself runs in the background
from ptxgym import cli
from ptxgym.runs import commands
known = {command.callback for command in cli.app.registered_commands}
for command in (commands.run, commands.show):
    if command not in known:
        cli.app.command()(command)
cli.main()
"""


def ptxgym(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command line as a person uses it: a real process."""
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, timeout=240, env=surroundings(**environment), check=False
    )


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-c", COMMAND, *map(str, arguments)]


def surroundings(**environment: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    return {**kept, "COLUMNS": "200", "NO_COLOR": "1", "PYTHONPATH": str(ROOT), **environment}


def evaluation(source: str = ""):
    """A real evaluation that takes no time."""
    env = KernelEnv(ID, device="none")
    env.reset()
    return env.step(source)[-1]["evaluation"]


def turn_record(turn: int = 1, trajectory: int = 0, **fields: object) -> TurnRecord:
    defaults = {
        "run": "r",
        "env": ID,
        "policy": "p",
        "model": "m",
        "variant": "plain",
        "messages": (Message(role="assistant", content="a", reasoning="b"),),
        "source": "x",
        "evaluation": evaluation(),
        "reward": math.nan,
        "terminated": False,
        "truncated": False,
        "usage": Usage(prompt_tokens=1),
        "created": "now",
    }
    return TurnRecord.model_validate({**defaults, "turn": turn, "trajectory": trajectory, **fields})


def stop_record(turn: int, stop: str, trajectory: int = 0) -> StopRecord:
    return StopRecord(env=ID, variant="plain", trajectory=trajectory, turn=turn, stop=stop, created="now")


def scripted(answers, model=ScriptedModel) -> ModelPolicy:
    """A policy that answers every trajectory from one script."""
    return ModelPolicy(lambda env, seed: model(answers))


def settings(policy=None, **changes: object) -> RunRecord:
    defaults = {
        "envs": [ID],
        "policy_name": "scripted",
        "policy": policy or scripted([]),
        "policy_options": {},
        "env_settings": {"device": "none"},
    }
    return new_run(**{**defaults, **changes})


def play(folder: Path, policy, record: RunRecord | None = None, *, resume=False, concurrency=2, **changes: object):
    """A run in this process; its outcome and its turns."""
    record = record or settings(policy, **changes)
    outcome = harness.run(folder, record, policy, concurrency=concurrency, resume=resume, watcher=Watcher())
    return outcome, list(read_turns(folder))


def essence(turns) -> list[dict[str, object]]:
    """What must be equal between two runs: everything but times, ids, and whether the cache answered."""
    rows = []
    for turn in sorted(turns, key=lambda turn: (*turn.key, turn.turn)):
        row = json.loads(turn.model_dump_json(exclude={"run", "created", "timing"}))  # NaN equals "NaN" there
        row["evaluation"]["cached"] = None
        for stage in row["evaluation"]["stages"]:
            stage["seconds"] = None
        rows.append(row)
    return rows
