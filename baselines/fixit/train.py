"""LoRA through TRL and PEFT, on one GPU, several (``accelerate launch``), or a CPU; a record of what came of it.

A training is a folder: ``settings.json`` before the first step, ``checkpoints/`` while it runs, then ``adapter/`` and
``training.json``. Not promised: the same weights on other hardware or other versions.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import importlib.util
import math
import os
import platform
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from baselines.fixit.train_data import Lengths, TrainingData, as_dataset, load_tokenizer, measure, read_parquet
from baselines.fixit.train_records import (
    ADAPTER,
    CHECKPOINTS,
    RECORD,
    SETTINGS,
    Described,
    LossPoint,
    Planned,
    TrainingRecord,
    TrainSettings,
)
from ptxgym.errors import InfrastructureError, MissingToolError, MisuseError

_PACKAGES = ("torch", "trl", "peft", "transformers", "datasets", "accelerate")


Watch = Callable[[int, int, float], None]
"""Told of every step: its number, how many there are, its loss."""


def require_extra() -> None:
    """Say how to get what training needs, if it is not here.

    Raises:
        MissingToolError: A package of the extra is missing.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # nothing is reported to anyone by default
    for package in ("transformers", "datasets", "accelerate", "peft", "trl"):
        if importlib.util.find_spec(package) is None:
            raise MissingToolError(package, "Install it with: pip install 'ptxgym[train]'")


def train(
    data: Path,
    model: str,
    out: Path,
    settings: TrainSettings | None = None,
    *,
    validation: Path | None = None,
    resume: bool = False,
    watch: Watch = lambda step, steps, loss: None,
) -> TrainingRecord:
    """Train an adapter, or the rest of one.

    Args:
        data: A Parquet of :mod:`baselines.fixit.train_data`.
        model: A folder, or a name of the Hugging Face hub.
        out: The training's folder.
        settings: The paper's by default.
        validation: Another Parquet; its loss is measured after every epoch.
        resume: Go on from the last checkpoint in ``out``; from the beginning when there is none yet.
        watch: Told of every step.

    Raises:
        MisuseError: Data, model, settings and folder do not go together; the message says how.
        MissingToolError: The extra ``train`` is not installed.
        InfrastructureError: The GPU's memory does not suffice, or a file cannot be written.
    """
    require_extra()
    settings = settings or TrainSettings()
    rows, held_out = read_parquet(data), read_parquet(validation) if validation else None
    tokenizer = load_tokenizer(model)
    plan = Planned(
        model=model,
        settings=settings,
        data=_describe(rows, measure(rows.rows, tokenizer, settings.max_length)),
        validation=_describe(held_out, measure(held_out.rows, tokenizer, settings.max_length)) if held_out else None,
    )
    trainer = make_trainer(rows, held_out, model, tokenizer, out, settings)
    if trainer.is_world_process_zero():
        _begin(out, plan, resume)
    trainer.accelerator.wait_for_everyone()
    if (out / RECORD).exists():  # resumed, and there is nothing left to do
        return TrainingRecord.model_validate_json((out / RECORD).read_bytes())
    checkpoint = _last_checkpoint(out) if resume else None
    clock = _clock(trainer, watch)
    _run(trainer, checkpoint)
    trainer.save_model(str(out / ADAPTER))
    record = _record(plan, trainer, clock, checkpoint)
    if trainer.is_world_process_zero():
        (out / ADAPTER / "training_args.bin").unlink(missing_ok=True)  # a pickle, which nobody should have to trust
        _write(out / RECORD, record.model_dump_json(indent=1) + "\n")
    return record


def _run(trainer: Any, checkpoint: Path | None) -> None:
    import torch

    try:
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    except torch.OutOfMemoryError as error:
        raise InfrastructureError(
            f"The GPU's memory does not suffice: {str(error).splitlines()[0]} Fewer rows at a time (--micro-batch 1) "
            "or a data set of shorter rows need less."
        ) from None


def make_trainer(
    rows: TrainingData,
    held_out: TrainingData | None,
    model: str,
    tokenizer: Any,
    out: Path,
    settings: TrainSettings,
) -> Any:
    """TRL's trainer with everything in place, and nothing lost on the way.

    Raises:
        MisuseError: The batch cannot be spread, the model cannot be loaded, or rows are missing from what is trained.
    """
    from peft import LoraConfig
    from trl import SFTTrainer

    arguments = _arguments(out, settings, validated=held_out is not None)
    lora = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )
    trainer = SFTTrainer(
        model=load_model(model, on_gpu=not arguments.use_cpu),
        args=arguments,
        train_dataset=as_dataset(rows.rows),
        eval_dataset=as_dataset(held_out.rows) if held_out else None,
        processing_class=tokenizer,
        peft_config=lora,
    )
    for found, expected in ((trainer.train_dataset, rows), (trainer.eval_dataset, held_out)):
        if expected is not None:
            _check_nothing_lost(found, expected)
    return trainer


def _check_nothing_lost(found: Any, expected: TrainingData) -> None:
    """A trainer drops rows without a word; whoever reads the record should not have to guess."""
    kept = sum(any(label != -100 for label in labels) for labels in found["labels"])
    if kept != len(expected.rows):
        raise MisuseError(
            f"{expected.path} has {len(expected.rows)} rows, and {kept} of them would be trained: the others have no "
            "token that carries loss. Look at their answers and at the chat template."
        )


def load_model(model: str, on_gpu: bool) -> Any:
    """A causal language model, bf16 on a GPU and fp32 on a CPU.

    Raises:
        MisuseError: It cannot be loaded.
    """
    import torch
    from transformers import AutoModelForCausalLM

    where = str(Path(model).resolve()) if Path(model).is_dir() else model  # the adapter names its base by it
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(where, dtype=torch.bfloat16 if on_gpu else torch.float32)
    except (OSError, ValueError) as error:
        raise MisuseError(f"The model {model} cannot be loaded: {str(error).splitlines()[0]}") from None
    return loaded


def _arguments(out: Path, settings: TrainSettings, validated: bool) -> Any:
    import torch
    from accelerate import PartialState
    from trl import SFTConfig

    on_gpu = torch.cuda.is_available()
    processes = PartialState(cpu=not on_gpu).num_processes
    micro, accumulation = spread(settings.batch, settings.micro_batch, processes)
    return SFTConfig(
        output_dir=str(out / CHECKPOINTS),
        num_train_epochs=settings.epochs,
        max_steps=settings.max_steps,
        per_device_train_batch_size=micro,
        per_device_eval_batch_size=micro,
        gradient_accumulation_steps=accumulation,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="linear",
        adam_beta1=settings.adam_beta1,
        adam_beta2=settings.adam_beta2,
        adam_epsilon=settings.adam_epsilon,
        max_length=None,  # measured before; a limit here would cut answers off
        bf16=on_gpu,
        use_cpu=not on_gpu,
        **_checkpointing(SFTConfig, on_gpu),
        save_strategy="steps",
        save_steps=settings.checkpoint_every,
        save_total_limit=3,
        eval_strategy="epoch" if validated else "no",
        logging_strategy="steps",
        logging_steps=1,
        logging_first_step=True,
        disable_tqdm=True,
        dataloader_pin_memory=on_gpu,
        ddp_find_unused_parameters=False,  # every adapter takes part in every step
        report_to="none",
        seed=settings.seed,
    )


def _checkpointing(config: Any, on_gpu: bool) -> dict[str, Any]:
    """Recompute activations rather than keep them; transformers changed the option's name on the way."""
    names = {field.name for field in dataclasses.fields(config)}
    name = "activation_checkpointing" if "activation_checkpointing" in names else "gradient_checkpointing"
    return {name: on_gpu, f"{name}_kwargs": {"use_reentrant": False}}


def spread(batch: int, micro_batch: int, processes: int) -> tuple[int, int]:
    """Rows per GPU at a time, and how often gradients are accumulated.

    Raises:
        MisuseError: The batch is no whole multiple.
    """
    if batch % processes:
        raise MisuseError(f"A batch of {batch} rows cannot be spread over {processes} GPUs; make --batch a multiple.")
    share = batch // processes
    micro = micro_batch or share
    if share % micro:
        raise MisuseError(f"--micro-batch {micro} does not divide the {share} rows that each GPU has of a batch.")
    return micro, share // micro


def _begin(out: Path, plan: Planned, resume: bool) -> None:
    """Write what is planned, or see that the training that is gone on with was planned alike."""
    path = out / SETTINGS
    if not path.exists():
        out.mkdir(parents=True, exist_ok=True)
        _write(path, plan.model_dump_json(indent=1) + "\n")
        return
    if not resume:
        raise MisuseError(f"{out} holds a training. Go on with it by --resume, or choose another --out.")
    try:
        before = Planned.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise MisuseError(f"{path} is no record of a training: {error.errors()[0]['msg']}.") from None
    then, now = (_flat(x.model_dump(exclude={"data": {"file"}, "validation": {"file"}})) for x in (before, plan))
    if differing := [f"{name} {then[name]}, not {now[name]}" for name in then if then[name] != now.get(name)]:
        raise MisuseError(f"The training in {out} has {differing[0]}; a resumed training keeps its settings and data.")


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {name: value}
    return {k: v for key, part in value.items() for k, v in _flat(part, f"{name}.{key}".strip(".")).items()}


def _last_checkpoint(out: Path) -> Path | None:
    found = [path for path in (out / CHECKPOINTS).glob("checkpoint-*") if (path / "trainer_state.json").exists()]
    return max(found, key=lambda path: int(path.name.rpartition("-")[2]), default=None)


class _Times:
    """When steps ended."""

    def __init__(self) -> None:
        self.start = 0.0
        self.ends: list[float] = []

    @property
    def seconds(self) -> float:
        return self.ends[-1] - self.start if self.ends else 0.0

    @property
    def per_step(self) -> float:
        """The median of all steps but the first, which also warms everything up."""
        gaps = sorted(after - before for before, after in zip(self.ends, self.ends[1:], strict=False))
        return gaps[len(gaps) // 2] if gaps else math.nan


def _clock(trainer: Any, watch: Watch) -> _Times:
    """Watch a trainer's steps."""
    from transformers import PrinterCallback, TrainerCallback

    times = _Times()

    class Clock(TrainerCallback):  # type: ignore[misc]
        def on_train_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            times.start = time.monotonic()

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **others: Any) -> None:
            if logs and "loss" in logs:
                times.ends.append(time.monotonic())
                if state.is_world_process_zero:
                    watch(state.global_step, state.max_steps, float(logs["loss"]))

    trainer.remove_callback(PrinterCallback)  # it prints to stdout, where results go
    trainer.add_callback(Clock())
    return times


def _record(plan: Planned, trainer: Any, times: _Times, checkpoint: Path | None) -> TrainingRecord:
    import torch

    on_gpu = torch.cuda.is_available()
    history = trainer.state.log_history
    steps = trainer.state.global_step
    begun = int(checkpoint.name.rpartition("-")[2]) if checkpoint else 0
    sizes = [(p.numel(), p.requires_grad) for p in trainer.model.parameters()]
    tokens = plan.data.tokens / plan.data.rows * plan.settings.batch * max(0, len(times.ends))
    return TrainingRecord(
        **{name: getattr(plan, name) for name in ("model", "settings", "data", "validation")},
        losses=tuple(LossPoint(step=e["step"], loss=e["loss"]) for e in history if "loss" in e),
        validation_losses=tuple(LossPoint(step=e["step"], loss=e["eval_loss"]) for e in history if "eval_loss" in e),
        steps=steps,
        resumed_from=begun,
        seconds=times.seconds,
        seconds_per_step=times.per_step,
        tokens_per_second=tokens / times.seconds if times.seconds else math.nan,
        peak_memory_bytes=torch.cuda.max_memory_allocated() if on_gpu else _process_size(),
        trainable_parameters=sum(size for size, trained in sizes if trained),
        parameters=sum(size for size, _ in sizes),
        device=torch.cuda.get_device_name() if on_gpu else platform.processor() or platform.machine(),
        processes=trainer.args.world_size,
        software={"python": platform.python_version(), **{p: importlib.metadata.version(p) for p in _PACKAGES}},
    )


def _process_size() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _describe(data: TrainingData, lengths: Lengths) -> Described:
    return Described(
        file=data.path.name,
        sha256=data.sha256,
        rows=len(data.rows),
        tokens=lengths.tokens,
        loss_tokens=lengths.loss_tokens,
        longest=lengths.longest,
    )


def _write(path: Path, text: str) -> None:
    draft = path.with_name(f"{path.name}.tmp")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        raise InfrastructureError(f"{path} cannot be written: {error.strerror}.") from None
