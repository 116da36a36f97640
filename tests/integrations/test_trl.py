"""TRL, in its own trainer: real evaluations, a scripted policy, a real step."""

import math
import pickle
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from ptxgym.errors import MisuseError
from ptxgym.integrations.trl import KernelReward, KernelRollout, environment_factory
from tests.integrations.sources import COMPILE_ERROR, GEMM, OUT_OF_BOUNDS, fenced

EXAMPLES = Path(__file__).parents[2] / "examples"
needs_trl = pytest.mark.skipif(not find_spec("trl"), reason="TRL is not installed: pip install 'ptxgym[trl]'")


def one(evaluation):
    return 1.0


def test_an_episode_by_hand():
    rollout = environment_factory(GEMM, device="none", max_turns=2)()
    prompt = rollout.reset(prompt=[{"role": "user", "content": ""}], other_column=3)
    assert prompt.startswith("Write one CUDA C++17 source file")
    assert rollout.get_reward() == 0.0
    assert rollout.submit_kernel("").startswith("INVALID ACTION")
    assert "last submission" in rollout.submit_kernel(COMPILE_ERROR)
    assert rollout.submit_kernel(COMPILE_ERROR) == "This was the last submission; another would not be judged."
    assert rollout.reset(prompt=[{"role": "user", "content": "the task"}]) is None
    assert rollout.submit_kernel(OUT_OF_BOUNDS).startswith("UNKNOWN")
    assert rollout.get_reward() is None


def test_one_class_serves_rows_of_many_tasks():
    rollout = KernelRollout()
    for task in (GEMM, "PTXBench-MHAForward-B200"):
        assert f"for {task[-4:]}" in rollout.reset(task_id=task).splitlines()[0]
    with pytest.raises(MisuseError, match="No task"):
        rollout.reset()


def test_a_factory_and_what_it_makes_can_be_sent_to_another_process():
    factory = pickle.loads(pickle.dumps(environment_factory(GEMM, device="none", reward=one)))
    rollout = factory()
    rollout.reset()
    rollout.submit_kernel("")
    assert pickle.loads(pickle.dumps(rollout)).get_reward() == 1.0


def test_a_wrong_setting_is_told_before_the_training_begins():
    with pytest.raises(MisuseError, match="colour"):
        environment_factory(GEMM, colour="red")


def test_single_answers_are_scored_in_order_and_abstain_where_nothing_was_judged():
    reward = KernelReward(device="none", reward=one)
    assert reward.__name__
    completions = [fenced(OUT_OF_BOUNDS), [{"role": "assistant", "content": "No."}], "", [{"content": None}]]
    assert reward(completions=completions, prompts=[""] * 4, task_id=[GEMM] * 4) == [None, 1.0, 1.0, 1.0]


@needs_trl
def test_the_tool_is_the_only_one_and_has_a_schema():
    import inspect

    from transformers.utils import get_json_schema

    rollout = KernelRollout()
    public = {name for name, _ in inspect.getmembers(type(rollout), inspect.isfunction) if name[0] != "_"}
    assert public == {"reset", "submit_kernel", "get_reward"}
    schema = get_json_schema(rollout.submit_kernel)["function"]
    assert schema["parameters"]["required"] == ["source"]


@needs_trl
@pytest.mark.filterwarnings("ignore")  # of the frameworks themselves
def test_grpo_leaves_out_what_could_not_be_judged(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path))
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import torch
    from datasets import Dataset
    from scripted_policy import make_policy
    from trl import GRPOConfig, GRPOTrainer

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # a network this small only waits for its threads
    model, tokenizer = make_policy()
    config = GRPOConfig(
        output_dir=str(tmp_path),
        max_steps=1,
        num_generations=2,
        per_device_train_batch_size=2,
        max_completion_length=2048,
        use_cpu=True,
        bf16=False,
        report_to="none",
        save_strategy="no",
        logging_steps=1,
        beta=0.0,
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    # The script's first trajectory submits a kernel that nobody can judge here; the second does not.
    trainer = GRPOTrainer(
        model=model,
        args=config,
        train_dataset=Dataset.from_list([{"prompt": [{"role": "user", "content": ""}], "task_id": GEMM}]),
        processing_class=tokenizer,
        environment_factory=environment_factory(
            device="none", reward=one, max_turns=3, feedback_tokens=200, knowledge="none"
        ),
    )
    trainer.train()
    torch.set_num_threads(threads)
    log = next(entry for entry in trainer.state.log_history if "reward" in entry)
    assert log["reward"] == log["rewards/KernelRollout/mean"] == 1.0  # 0.5 if the unknown counted as 0
    assert log["tools/failure_frequency"] == 0
    assert log["tools/call_frequency"] == 1.5
    assert log["grad_norm"] == 0.0
    assert not math.isnan(log["loss"])
    sys.modules.pop("scripted_policy")
