"""GRPO with TRL: a language model learns to write kernels, one tool call per submission.

    pip install 'ptxgym[trl]'
    python examples/train_grpo.py --model Qwen/Qwen3-4B --lora --out runs/grpo

Where there is no GPU of the task's architecture, kernels are judged on the simulator (``--device simulator`` wants it
so). ``--smoke`` shows the whole loop in a minute without a model: a tiny random network whose answers are scripted.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from datasets import Dataset
from peft import LoraConfig
from transformers import AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

from ptxgym.integrations.dataset import make_rows, read_rows
from ptxgym.integrations.trl import environment_factory

parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
parser.add_argument("--model", help="a name or a folder; it must know tool calls")
parser.add_argument("--tasks", type=Path, help="rows of `ptxgym tasks export --answers tool --out FILE.jsonl`")
parser.add_argument("--device", default="auto", help="auto, cuda, or simulator")
parser.add_argument("--lora", action="store_true", help="train an adapter in place of the whole model")
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--generations", type=int, default=8, help="trajectories per task and step")
parser.add_argument("--turns", type=int, default=4, help="submissions per trajectory")
parser.add_argument("--completion-tokens", type=int, default=32768, help="of a whole trajectory, feedback included")
parser.add_argument("--feedback-tokens", type=int, default=800, help="the longest feedback")
parser.add_argument("--learning-rate", type=float, default=1e-6)
parser.add_argument("--out", type=Path, default=Path("runs/grpo"))
parser.add_argument("--smoke", action="store_true", help="one step with a scripted model")
args = parser.parse_args()

# 1. The tasks, from easy to hard: GEMM on its probe shapes first.
if args.tasks:
    rows = [row for row in read_rows(args.tasks) if row["split"] == "train"]
else:
    rows = make_rows(["PTXBench-*-H100"], splits=["train"], answers="tool", max_turns=args.turns, device=args.device)

# 2. The model.
if args.smoke:
    from scripted_policy import make_policy

    model, tokenizer = make_policy()
    rows, args.steps, args.generations, args.learning_rate = rows[:1], 1, 2, 1e-3
elif args.model:
    model, tokenizer = args.model, AutoTokenizer.from_pretrained(args.model)
else:
    parser.error("--model or --smoke")

# 3. Each trajectory has an environment of its own, which counts feedback with the model's tokenizer.
environments = environment_factory(
    device=args.device, max_turns=args.turns, feedback_tokens=args.feedback_tokens, tokenizer=tokenizer
)

# 4. GRPO. A trajectory's reward is that of its best submission; one that could not be judged abstains.
config = GRPOConfig(
    output_dir=str(args.out),
    max_steps=args.steps,
    num_generations=args.generations,
    per_device_train_batch_size=args.generations,
    max_completion_length=args.completion_tokens,
    max_tool_calling_iterations=args.turns,
    learning_rate=args.learning_rate,
    shuffle_dataset=False,  # the rows are in order of difficulty
    beta=0.0,
    logging_steps=1,
    report_to="none",
    use_cpu=args.smoke,
    bf16=not args.smoke,
    dataloader_pin_memory=not args.smoke,
)
trainer = GRPOTrainer(
    model=model,
    args=config,
    train_dataset=Dataset.from_list(rows),
    processing_class=tokenizer,
    environment_factory=environments,
    peft_config=LoraConfig(r=32, lora_alpha=64, target_modules="all-linear", task_type="CAUSAL_LM")
    if args.lora
    else None,
)
trainer.train()
trainer.save_model()

for entry in trainer.state.log_history:
    if "reward" in entry:
        print(
            f"step {entry['step']:.0f}: reward {entry['reward']:.3f} ± {entry['reward_std']:.3f}, "
            f"gradient {entry['grad_norm']:.3g}, tool calls per trajectory {entry['tools/call_frequency']:.1f}"
        )
print(f"saved to {args.out}")
