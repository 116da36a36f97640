"""verl: the score through its own reward manager, the agent loop against a server that answers by script."""

import asyncio
import importlib.metadata
import threading
from importlib.util import find_spec

import pytest

from ptxgym.errors import MisuseError
from ptxgym.integrations.verl import compute_score
from tests.integrations.sources import COMPILE_ERROR, GEMM, OUT_OF_BOUNDS, fenced

needs_verl = [
    pytest.mark.skipif(not find_spec("verl"), reason="verl is not installed: pip install 'ptxgym[verl]'"),
    pytest.mark.filterwarnings("ignore"),  # of the frameworks themselves
]


def marked(function):
    for mark in needs_verl:
        function = mark(function)
    return function


def test_a_single_answer_is_scored():
    told = compute_score("ptxgym", fenced(OUT_OF_BOUNDS), GEMM, {"phase": "probes", "num_turns": 2}, device="simulator")
    assert told == {
        "score": 0.05,
        "valid": 1.0,
        "turns": 1.0,
        "compiled": 1.0,
        "correct": 0.0,
        "passed": 0.0,
        "speedup": 0.0,
        "unjudged": 0.0,
    }


def test_the_keys_are_always_the_same_and_unknown_is_marked():
    unknown = compute_score("ptxgym", fenced(OUT_OF_BOUNDS), GEMM, None, device="none", reward_model_tokenizer=None)
    assert (unknown["score"], unknown["valid"]) == (0.0, 0.0)
    nothing = compute_score("ptxgym", "No.", GEMM, {}, device="none")
    assert (nothing["score"], nothing["valid"]) == (0.0, 1.0)
    assert unknown.keys() == nothing.keys()


def test_misuse_is_a_sentence():
    with pytest.raises(MisuseError, match="Did you mean"):
        compute_score("ptxgym", "No.", "PTXBench-GEM-H100", device="none")
    with pytest.raises(MisuseError, match="colour"):
        compute_score("ptxgym", "No.", GEMM, colour="red")


TEMPLATE = (
    "{%- for m in messages %}{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"
)


@pytest.fixture(scope="module")
def tokenizer():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    bytes_only = Tokenizer(models.BPE())
    bytes_only.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_only.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
    )
    bytes_only.train_from_iterator([fenced(OUT_OF_BOUNDS)], trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=bytes_only, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    fast.chat_template = TEMPLATE
    return fast


@marked
def test_the_version_is_one_that_was_tried():
    assert importlib.metadata.version("verl").startswith("0.9.")


@marked
def test_verl_s_own_reward_manager_finds_the_score(tokenizer):
    import numpy as np
    import ray
    import torch
    from omegaconf import OmegaConf
    from verl import DataProto
    from verl.trainer.ppo.reward import load_reward_manager

    config = OmegaConf.create(
        {
            "reward": {
                "custom_reward_function": {
                    "path": "pkg://ptxgym.integrations.verl",
                    "name": "compute_score",
                    "reward_kwargs": {"device": "simulator"},
                },
                "reward_manager": {"source": "register", "name": "naive"},
            }
        }
    )
    answers = [tokenizer(text)["input_ids"] for text in (fenced(OUT_OF_BOUNDS), "No.")]
    longest = max(map(len, answers))
    responses = torch.tensor([a + [tokenizer.pad_token_id] * (longest - len(a)) for a in answers])
    mask = torch.tensor([[1] * (1 + len(a)) + [0] * (longest - len(a)) for a in answers])

    def column(value):
        values = np.empty(2, dtype=object)
        values[:] = [value() for _ in answers]
        return values

    batch = DataProto.from_dict(
        tensors={"prompts": torch.ones(2, 1, dtype=torch.long), "responses": responses, "attention_mask": mask},
        non_tensors={
            "data_source": column(lambda: "ptxgym"),
            "reward_model": column(lambda: {"style": "rule", "ground_truth": GEMM}),
            "extra_info": column(lambda: {"phase": "probes"}),
        },
    )

    async def score():
        manager = load_reward_manager(config, tokenizer)
        return [await manager.run_single(batch[i : i + 1]) for i in range(2)]

    first, second = asyncio.run(score())
    assert (first["reward_score"], first["reward_extra_info"]["compiled"]) == (0.05, 1.0)
    assert (second["reward_score"], second["reward_extra_info"]["valid"]) == (0.0, 1.0)
    assert not ray.is_initialized()


def play(tokenizer, answers, *, room=4000, row=None, **settings):
    """Play a trajectory whose policy gives these answers; what came of it, and the prompts that the policy saw."""
    import hydra
    from omegaconf import OmegaConf
    from verl.experimental.agent_loop.agent_loop import DictConfigWrap
    from verl.workers.rollout.replica import TokenOutput

    seen = []

    class Server:
        async def generate(self, request_id, prompt_ids, sampling_params):
            seen.append(tokenizer.decode(prompt_ids))
            ids = tokenizer(answers[len(seen) - 1] + "<|im_end|>")["input_ids"]
            return TokenOutput(token_ids=ids, log_probs=[-1.0] * len(ids))

    async def run():
        config = {"actor_rollout_ref": {"rollout": {"prompt_length": 4000, "response_length": room}}}
        registered = {
            "name": "ptxgym",
            "_target_": "ptxgym.integrations.verl_agent_loop.KernelAgentLoop",
            "settings": {"device": "none", "feedback_tokens": 60, **settings},
        }
        loop = hydra.utils.instantiate(  # as verl's worker does
            OmegaConf.create(registered),
            trainer_config=DictConfigWrap(OmegaConf.create(config)),
            server_manager=Server(),
            tokenizer=tokenizer,
            processor=None,
            hf_model_type=None,
            dataset_cls=None,
            data_config=DictConfigWrap(OmegaConf.create({})),
            tools=None,
        )
        given = {
            "raw_prompt": [{"role": "user", "content": "Write it."}],
            "reward_model": {"style": "rule", "ground_truth": GEMM},
            "extra_info": {"phase": "probes", "max_turns": 2},
            "index": 0,
        }
        return await loop.run({"temperature": 1.0}, **given)

    return asyncio.run(run()), seen


@marked
def test_the_agent_loop_plays_several_turns_and_trains_on_the_answers_alone(tokenizer):
    answers = ["I do not know.", fenced(OUT_OF_BOUNDS)]
    output, seen = play(tokenizer, answers, device="simulator")
    assert output.reward_score == 0.05
    assert output.num_turns == 4
    assert output.extra_fields["turn_scores"] == [0.0, 0.05]
    assert output.extra_fields["reward_extra_info"]["valid"] == 1.0
    assert "UNUSABLE ANSWER" in seen[1]
    assert seen[1].startswith(seen[0])
    trained = [token for token, kept in zip(output.response_ids, output.response_mask, strict=True) if kept]
    assert tokenizer.decode(trained) == "".join(answer + "<|im_end|>" for answer in answers)
    others = [token for token, kept in zip(output.response_ids, output.response_mask, strict=True) if not kept]
    assert "UNUSABLE ANSWER" in tokenizer.decode(others)
    assert len(output.response_logprobs) == len(output.response_ids)


@marked
def test_a_trajectory_that_was_not_judged_gives_no_token_to_the_loss(tokenizer):
    output, _ = play(tokenizer, [fenced(OUT_OF_BOUNDS), "No."])
    assert set(output.response_mask) == {0}
    assert (output.reward_score, output.extra_fields["reward_extra_info"]["valid"]) == (0.0, 0.0)


@marked
def test_the_response_ends_where_its_room_does(tokenizer):
    output, seen = play(tokenizer, ["I do not know.", "No."], room=40)
    assert len(seen) == 1
    assert len(output.response_ids) == len(output.response_mask) <= 40


@marked
def test_the_event_loop_goes_on_while_a_kernel_is_judged(tokenizer, monkeypatch):
    from ptxgym.integrations.episode import Episode

    judging, may_end, answer = threading.Event(), threading.Event(), Episode.answer

    def held_back(self, text):
        judging.set()
        assert may_end.wait(60)
        return answer(self, text)

    monkeypatch.setattr(Episode, "answer", held_back)
    real_run = asyncio.run

    def with_another_task(coroutine):
        async def both():
            async def other():  # would never get its turn if the loop were blocked
                while not judging.is_set():
                    await asyncio.sleep(0)
                may_end.set()

            return (await asyncio.gather(coroutine, other()))[0]

        return real_run(both())

    monkeypatch.setattr(asyncio, "run", with_another_task)
    output, _ = play(tokenizer, ["No.", COMPILE_ERROR])
    assert output.num_turns == 4
