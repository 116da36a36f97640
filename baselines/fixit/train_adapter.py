"""An adapter put to use: loaded onto its base model, merged into it, and compared with what the merge gave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from baselines.fixit.train import load_model, require_extra
from baselines.fixit.train_data import load_tokenizer
from ptxgym.errors import MisuseError

_CONFIG = "adapter_config.json"


def is_adapter(path: str | Path) -> bool:
    """Whether a folder holds an adapter rather than a whole model."""
    return (Path(path) / _CONFIG).exists()


def base_of(adapter: str | Path) -> str:
    """The model that an adapter was trained on.

    Raises:
        MisuseError: The folder holds no adapter, or one that names no base.
    """
    try:
        base = json.loads((Path(adapter) / _CONFIG).read_text(encoding="utf-8")).get("base_model_name_or_path")
    except (OSError, ValueError, AttributeError):
        raise MisuseError(f"{adapter} holds no adapter: it has no {_CONFIG} that can be read.") from None
    if not base:
        raise MisuseError(f"{Path(adapter) / _CONFIG} does not name the model that the adapter belongs to.")
    return str(base)


def load(path: str | Path, base: str | None = None) -> tuple[Any, Any]:
    """A model ready to answer, and its tokenizer; on a GPU in bf16 where there is one, else on the CPU in fp32.

    Args:
        path: A model's folder or name, or an adapter's folder, which is loaded onto its base.
        base: Another place for the adapter's base than the one it names.

    Raises:
        MisuseError: It cannot be loaded.
        MissingToolError: The extra ``train`` is not installed.
    """
    require_extra()
    import torch

    on_gpu = torch.cuda.is_available()
    if not is_adapter(path):
        model, tokenizer = load_model(str(path), on_gpu), load_tokenizer(str(path))
    else:
        from peft import PeftModel

        tokenizer = load_tokenizer(str(path))
        try:
            model = PeftModel.from_pretrained(load_model(base or base_of(path), on_gpu), str(path))
        except (OSError, ValueError, RuntimeError) as error:
            raise MisuseError(f"The adapter {path} does not fit its base: {str(error).splitlines()[0]}") from None
    return model.to("cuda" if on_gpu else "cpu").eval(), tokenizer


def merge(adapter: Path, out: Path, base: str | None = None) -> Path:
    """Write an adapter and its base as one model, which any server loads.

    Raises:
        MisuseError: There is no adapter, ``out`` exists, or the merge would not be finite.
    """
    if not is_adapter(adapter):
        raise MisuseError(f"{adapter} holds no adapter; the one of a training is in its folder `adapter`.")
    if out.exists():
        raise MisuseError(f"{out} exists; choose another --out.")
    model, tokenizer = load(adapter, base)
    try:
        merged = model.merge_and_unload(safe_merge=True)
    except ValueError as error:
        raise MisuseError(f"{adapter} cannot be merged: {error}") from None
    draft = out.with_name(f"{out.name}.tmp")
    merged.save_pretrained(draft)
    tokenizer.save_pretrained(draft)
    return draft.replace(out)


def largest_difference(first: Any, second: Any, token_ids: Any) -> tuple[float, float]:
    """The largest difference between two models' logits, and the largest logit, over one batch of token ids.

    Args:
        first: A model.
        second: Another with the same vocabulary.
        token_ids: Integers of shape ``[rows, tokens]``.
    """
    import torch

    with torch.no_grad():
        one, other = (model(token_ids.to(model.device)).logits.float().cpu() for model in (first, second))
    return float((one - other).abs().max()), float(one.abs().max())
