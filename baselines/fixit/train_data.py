"""A Parquet of conversations as rows to train on: prompt, and the answer that alone carries loss.

Everything that would make a training go wrong without a word is refused here, before a model is loaded: another
schema, a tokenizer without a chat template, a template that writes the prompt differently once the answer stands behind
it, and conversations that do not fit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptxgym.errors import MisuseError

Message = dict[str, str]


@dataclass(frozen=True, slots=True)
class Row:
    """One conversation."""

    id: str
    prompt: list[Message]
    """All messages but the last."""
    answer: Message
    """The last, of the assistant."""


@dataclass(frozen=True, slots=True)
class TrainingData:
    """The rows of a file."""

    path: Path
    sha256: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Lengths:
    """What rows amount to in tokens of one tokenizer."""

    tokens: int
    loss_tokens: int
    """Tokens of the answers, end of turn included."""
    longest: int


def read_parquet(path: Path) -> TrainingData:
    """The conversations of a Parquet file with the columns ``id``, ``messages`` and ``metadata``.

    Raises:
        MisuseError: It cannot be read, has another schema, or a conversation that does not end with an answer.
    """
    import pyarrow
    import pyarrow.parquet

    try:
        schema = pyarrow.parquet.read_schema(path)
        _check_schema(path, schema)
        table = pyarrow.parquet.read_table(path, columns=["id", "messages"])
    except FileNotFoundError:
        raise MisuseError(f"There is no file {path}. `ptxgym fixit build` makes one.") from None
    except (OSError, pyarrow.ArrowException) as error:
        raise MisuseError(f"{path} is no Parquet file that can be read: {str(error).splitlines()[0]}") from None
    rows = tuple(_row(path, *values) for values in zip(*table.to_pydict().values(), strict=True))
    if not rows:
        raise MisuseError(f"{path} has no row, so there is nothing to train on.")
    return TrainingData(path, _digest(path), rows)


def _check_schema(path: Path, schema: Any) -> None:
    import pyarrow.types as types

    columns = set(schema.names)
    if missing := [name for name in ("id", "messages", "metadata") if name not in columns]:
        raise MisuseError(
            f"{path} has the columns {', '.join(schema.names)}; {', '.join(missing)} is missing. A data set to train "
            "on has id, messages and metadata, as `ptxgym fixit build` writes them."
        )
    kind = schema.field("messages").type
    listed = types.is_list(kind) or types.is_large_list(kind)
    fields = {kind.value_type.field(i).name for i in range(kind.value_type.num_fields)} if listed else set()
    if not {"role", "content"} <= fields:
        raise MisuseError(f"{path}: messages is {kind}; it should be a list of structs with role and content.")


def _row(path: Path, identity: Any, messages: Any) -> Row:
    where = f"{path}, row {identity!r}"
    if not messages or any(not isinstance(m["content"], str) or not isinstance(m["role"], str) for m in messages):
        raise MisuseError(f"{where}: it has no messages, or one without role or content.")
    plain = [{"role": message["role"], "content": message["content"]} for message in messages]
    if len(plain) < 2 or plain[-1]["role"] != "assistant" or not plain[-1]["content"].strip():
        raise MisuseError(f"{where}: it does not end with an assistant's answer to a prompt.")
    return Row(str(identity), plain[:-1], plain[-1])


def load_tokenizer(model: str) -> Any:
    """The tokenizer of a model.

    Raises:
        MisuseError: It cannot be loaded, or has no chat template.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(model)
    except (OSError, ValueError) as error:
        raise MisuseError(f"The tokenizer of {model} cannot be loaded: {str(error).splitlines()[0]}") from None
    if not tokenizer.chat_template:
        raise MisuseError(
            f"The tokenizer of {model} has no chat template, so it is not known how it writes a conversation. Take the "
            "instruction-tuned model, or put a chat_template.jinja beside the tokenizer."
        )
    return tokenizer


def measure(rows: Sequence[Row], tokenizer: Any, max_length: int) -> Lengths:
    """Tokens of the rows as a trainer will see them.

    Raises:
        MisuseError: Rows are longer than ``max_length``, or the answer is not what stands behind the prompt.
    """
    totals: list[int] = []
    answers = 0
    too_long: list[str] = []
    for row in rows:
        prompt = _ids(tokenizer, row.prompt, add_generation_prompt=True)
        whole = _ids(tokenizer, [*row.prompt, row.answer])
        if whole[: len(prompt)] != prompt:
            raise MisuseError(
                f"Row {row.id!r}: the chat template writes the prompt differently once the answer stands behind it, so "
                "the model would be trained on another prompt than it is asked. Use a template whose generation prompt "
                "is how its answers begin."
            )
        totals.append(len(whole))
        answers += len(whole) - len(prompt)
        if len(whole) > max_length:
            too_long.append(row.id)
    if too_long:
        shown = ", ".join(too_long[:3]) + (", …" if len(too_long) > 3 else "")
        raise MisuseError(
            f"{len(too_long)} of {len(rows)} rows have more than {max_length:,} tokens, the longest {max(totals):,} "
            f"({shown}): cut there, they would lose their answers. Build the data set with a lower limit, or raise "
            "--max-length."
        )
    return Lengths(sum(totals), answers, max(totals))


def _ids(tokenizer: Any, messages: list[Message], **options: Any) -> list[int]:
    ids: list[int] = tokenizer.apply_chat_template(messages, tokenize=True, return_dict=True, **options)["input_ids"]
    return ids


def as_dataset(rows: Sequence[Row]) -> Any:
    """Rows in the form in which TRL puts the loss on the last answer alone."""
    from datasets import Dataset

    return Dataset.from_list([{"prompt": row.prompt, "completion": [row.answer]} for row in rows])


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
