"""Times Fixit's LoRA training on a model that it makes itself, and compares the merged model with the adapter.

Run with ``python -m benchmarks.fixit_train`` from the repository's root. Nothing is downloaded: the model is Qwen3's
smallest shape with random weights, the tokenizer is learned from the example kernels, and the rows look like contract
pairs (a kernel that lost a line, the finding, the way to the fix, the kernel), unless ``--data`` gives others. What is
learned means nothing; steps per second, tokens per second and memory do.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from baselines.fixit.train import require_extra, train
from baselines.fixit.train_adapter import base_of, largest_difference, load, merge
from baselines.fixit.train_data import read_parquet
from baselines.fixit.train_records import TrainingRecord, TrainSettings

ROOT = Path(__file__).resolve().parents[1]

TEMPLATE = (
    "{%- for m in messages %}{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"
)

SHAPES: dict[str, dict[str, int]] = {
    "0.6b": {"hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16,
             "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151_936},
    "1.7b": {"hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 28, "num_attention_heads": 16,
             "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151_936},
    "tiny": {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
             "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 4096},
}  # fmt: skip
"""Qwen3's own shapes, and one for a CPU."""

_COMPARED = 2048
"""Tokens whose logits are compared: each has a logit for every word of the vocabulary."""


@dataclass(frozen=True)
class Figures:
    """What was measured."""

    shape: str
    parameters: int
    trainable_parameters: int
    rows: int
    tokens_per_row: float
    longest: int
    steps: int
    steps_per_second: float
    tokens_per_second: float
    peak_memory_gib: float
    first_loss: float
    last_loss: float
    merged_difference: float
    """The largest difference of a logit between the merged model and the adapter on its base."""
    adapter_effect: float
    """The same between the adapter on its base and the base alone."""
    largest_logit: float
    device: str
    processes: int
    seconds: dict[str, float]
    """Of each part."""


def main() -> None:
    """Make, train, merge, compare, print."""
    asked = _arguments()
    require_extra()
    import torch
    from accelerate import PartialState
    from accelerate.utils import broadcast_object_list

    state = PartialState(cpu=not torch.cuda.is_available())  # of one process, or of those of `accelerate launch`
    with tempfile.TemporaryDirectory() as own:
        (folder,) = broadcast_object_list([own])
        figures = _measure(Path(folder), asked, state)
        state.wait_for_everyone()
    if figures is None:
        return
    if asked.json:
        asked.json.write_text(json.dumps(asdict(figures), indent=1) + "\n", encoding="utf-8")
    for name, value in asdict(figures).items():
        print(f"{name:<24}{value:.4g}" if isinstance(value, float) else f"{name:<24}{value}")


def _measure(at: Path, asked: argparse.Namespace, state: Any) -> Figures | None:
    """The figures; None in all processes but the first."""
    parts: dict[str, float] = {}
    model, data = at / "model", asked.data or at / "rows.parquet"
    with _timed(parts, "make"):
        if state.is_main_process:
            make_model(model, asked.shape)
            if not asked.data:
                make_data(data, model, asked.rows, asked.tokens)
        state.wait_for_everyone()
    settings = TrainSettings(
        max_steps=asked.steps, batch=asked.batch, micro_batch=asked.micro_batch, max_length=asked.max_length
    )
    with _timed(parts, "train"):
        record = train(data, str(model), at / "out", settings, watch=_watch)
    if not state.is_main_process:
        return None
    with _timed(parts, "merge and compare"):
        differences = compare(at / "out" / "adapter", at / "merged", data)
    return _figures(asked.shape, record, differences, parts)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", choices=SHAPES, default="0.6b")
    parser.add_argument("--data", type=Path, help="a Parquet to train on, instead of rows made here")
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--tokens", type=int, default=2048, help="of a row made here, about")
    parser.add_argument("--max-length", type=int, default=65_536)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--micro-batch", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the figures here")
    return parser.parse_args()


class _timed:  # noqa: N801 reads as a word
    """Write down how long a block took."""

    def __init__(self, parts: dict[str, float], name: str) -> None:
        self.parts, self.name = parts, name

    def __enter__(self) -> None:
        self.start = time.monotonic()

    def __exit__(self, *error: object) -> None:
        self.parts[self.name] = round(time.monotonic() - self.start, 1)


def _watch(step: int, steps: int, loss: float) -> None:
    if step % 20 == 0 or step == 1:
        print(f"step {step} of {steps}, loss {loss:.3f}", flush=True)


def kernels() -> list[str]:
    """The example kernels."""
    return [path.read_text(encoding="utf-8") for path in sorted((ROOT / "examples/kernels/hopper").glob("*.cu"))]


def make_model(folder: Path, shape: str) -> Path:
    """A Qwen3 with random weights and a tokenizer learned from the example kernels, on disk."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    learned = Tokenizer(models.BPE())
    learned.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    learned.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=4096, show_progress=False, initial_alphabet=alphabet, special_tokens=special
    )
    learned.train_from_iterator(kernels(), trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=learned, eos_token=special[2], pad_token=special[0])
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)

    torch.manual_seed(0)
    config = Qwen3Config(
        **SHAPES[shape],
        max_position_embeddings=40_960,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        Qwen3ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    return folder


def make_data(path: Path, model: Path, rows: int, tokens: int) -> Path:
    """Rows of about so many tokens, in the form of contract pairs."""
    import pyarrow
    import pyarrow.parquet
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(model))
    conversations = list(_conversations(tokenizer, rows, tokens))
    table = {
        "id": [f"row-{number}" for number in range(rows)],
        "messages": conversations,
        "metadata": [{"problem": "PTXBench-GEMM-H100"}] * rows,
    }
    pyarrow.parquet.write_table(pyarrow.table(table), path)
    return path


def _conversations(tokenizer: Any, rows: int, tokens: int) -> Iterator[list[dict[str, str]]]:
    generator = random.Random(0)
    sources = [tokenizer(source)["input_ids"] for source in kernels()]
    window = (tokens - 250) // 2
    for _ in range(rows):
        ids = generator.choice([ids for ids in sources if len(ids) > window])
        start = generator.randrange(len(ids) - window)
        lines = tokenizer.decode(ids[start : start + window]).splitlines()
        lost = generator.randrange(len(lines))
        failing, fixed = "\n".join(lines[:lost] + lines[lost + 1 :]), "\n".join(lines)
        yield [
            {"role": "system", "content": "You write GPU kernels in CUDA C++ with inline PTX."},
            {"role": "user", "content": "Write one CUDA C++17 source file with inline PTX for H100 (Hopper, sm_90a)."},
            {"role": "assistant", "content": f"```cpp\n{failing}\n```"},
            {"role": "user", "content": f"FAILED: kernel.cu:{lost + 1}: error: something is missing here."},
            {
                "role": "assistant",
                "content": f"<think>\nThe finding names line {lost + 1}. What has to stand there is\n{lines[lost]}\n"
                f"</think>\n\n```cpp\n{fixed}\n```",
            },
        ]


def compare(adapter: Path, merged: Path, data: Path) -> tuple[float, float, float]:
    """(merged against adapter, adapter against base, largest logit) over the start of the first row."""
    adapted, tokenizer = load(adapter)
    row = read_parquet(data).rows[0]
    ids = tokenizer.apply_chat_template([*row.prompt, row.answer], return_tensors="pt", return_dict=True)["input_ids"]
    ids = ids[:, :_COMPARED]
    whole, _ = load(merge(adapter, merged))
    difference, largest = largest_difference(adapted, whole, ids)
    del whole
    base, _ = load(base_of(adapter))
    return difference, largest_difference(adapted, base, ids)[0], largest


def _figures(
    shape: str, record: TrainingRecord, differences: tuple[float, float, float], parts: dict[str, float]
) -> Figures:
    first, last = record.fall
    per_row = record.data.tokens / record.data.rows
    return Figures(
        shape=shape,
        parameters=record.parameters,
        trainable_parameters=record.trainable_parameters,
        rows=record.data.rows,
        tokens_per_row=per_row,
        longest=record.data.longest,
        steps=record.steps,
        steps_per_second=1 / record.seconds_per_step,
        tokens_per_second=per_row * record.settings.batch / record.seconds_per_step,
        peak_memory_gib=record.peak_memory_bytes / 2**30,
        first_loss=first,
        last_loss=last,
        merged_difference=differences[0],
        adapter_effect=differences[1],
        largest_logit=differences[2],
        device=record.device,
        processes=record.processes,
        seconds=parts,
    )


if __name__ == "__main__":
    main()
