"""A tokenizer, a model and data sets that the tests make themselves: no files, no network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

TEMPLATE = (
    "{%- for m in messages %}{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"
)

KERNEL = 'extern "C" cudaError_t run(int M, cudaStream_t stream) { return cudaSuccess; }'
ANSWER = f"<think>The wait is missing.</think>\n\n```cpp\n{KERNEL}\n```"
FEEDBACK = "INCORRECT: C is wrong."
OTHER = "```cpp\nint not_this_one;\n```"


def conversation(answer: str = ANSWER) -> list[dict[str, str]]:
    """A Fixit row: problem, failed kernel, feedback, and the answer that is learned."""
    return [
        {"role": "system", "content": "You write kernels."},
        {"role": "user", "content": "Write a GEMM."},
        {"role": "assistant", "content": OTHER},
        {"role": "user", "content": FEEDBACK},
        {"role": "assistant", "content": answer},
    ]


def write_parquet(path: Path, conversations: list[list[dict[str, str]]], **columns: Any) -> Path:
    """A data set with the columns that `build` writes."""
    import pyarrow
    import pyarrow.parquet

    count = len(conversations)
    table = {
        "id": [f"row-{n}" for n in range(count)],
        "messages": conversations,
        "metadata": [{"problem": "PTXBench-GEMM-H100"}] * count,
    } | columns
    pyarrow.parquet.write_table(pyarrow.table({k: v for k, v in table.items() if v is not None}), path)
    return path


def tiny_tokenizer(template: str | None = TEMPLATE) -> Any:
    """A byte-level tokenizer trained on one conversation."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
    )
    trained.train_from_iterator([message["content"] for message in conversation()] * 4, trainer)
    made: Any = PreTrainedTokenizerFast(
        tokenizer_object=trained, eos_token="<|im_end|>", pad_token="<|endoftext|>", padding_side="right"
    )
    made.chat_template = template
    return made


def write_tiny_model(folder: Path, template: str | None = TEMPLATE) -> Path:
    """A randomly initialised Qwen3 of some 100,000 parameters, on disk with its tokenizer."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    tokenizer = tiny_tokenizer(template)
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        initializer_range=0.1,  # an adapter leaves the embedding alone, which must allow sharp answers
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    Qwen3ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
