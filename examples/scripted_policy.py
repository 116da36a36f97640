"""A stand-in for a language model: a tiny random Qwen3 whose answers are scripted, whose gradients are real.

It serves ``train_grpo.py --smoke`` and tests: a random network would never call a tool.
"""

from __future__ import annotations

import json
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from trl.chat_template_utils import qwen3_chat_template

# It compiles, and writes behind the end of C: worth more than a source that does not compile.
OUT_OF_BOUNDS = """\
__global__ void beyond(__nv_bfloat16* C, size_t n) { C[n + threadIdx.x] = __float2bfloat16(1.f); }
extern "C" cudaError_t run(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int M, int N, int K,
                           cudaStream_t stream) {
  beyond<<<1, 1, 0, stream>>>(C, size_t(M) * N);
  return cudaGetLastError();
}
"""


def tool_call(source: str) -> str:
    """A submission in Qwen3's form."""
    call = json.dumps({"name": "submit_kernel", "arguments": {"source": source}})
    return f"<tool_call>\n{call}\n</tool_call><|im_end|>"


# What the trajectories of a group say, turn by turn: one improves, the other never submits anything that compiles.
SCRIPTS = (
    [tool_call(""), tool_call(OUT_OF_BOUNDS), "I stop here.<|im_end|>"],
    [tool_call("int x = ;"), "This will do.<|im_end|>"],
)


class ScriptedPolicy(Qwen3ForCausalLM):
    """Answers by script: as many tool responses as a conversation has, as far is its script."""

    tokenizer: PreTrainedTokenizerFast

    def generate(self, input_ids: torch.Tensor, **kwargs: Any) -> torch.Tensor:  # type: ignore[override]
        """The inputs with a scripted answer behind each."""
        answers = []
        for number, row in enumerate(input_ids):
            said = self.tokenizer.decode(row)
            # A trajectory that is still going on is known by what it said first.
            own = next((s for s in SCRIPTS if s[0].partition("<|im_end|>")[0] in said), SCRIPTS[number % len(SCRIPTS)])
            answers.append(self.tokenizer(own[min(said.count("<tool_response>"), len(own) - 1)])["input_ids"])
        longest = max(map(len, answers))
        padded = [answer + [self.tokenizer.pad_token_id] * (longest - len(answer)) for answer in answers]
        return torch.cat([input_ids, torch.tensor(padded, device=input_ids.device)], dim=1)


def make_policy() -> tuple[ScriptedPolicy, PreTrainedTokenizerFast]:
    """The model and its tokenizer, which is trained on the script."""
    tokenizer = _make_tokenizer([text for script in SCRIPTS for text in script])
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=16384,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = ScriptedPolicy(config)
    model.tokenizer = tokenizer
    return model, tokenizer


def _make_tokenizer(corpus: list[str]) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
    )
    tokenizer.train_from_iterator(corpus, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>", padding_side="left"
    )
    fast.chat_template = qwen3_chat_template
    return fast
