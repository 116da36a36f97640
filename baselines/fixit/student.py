"""The student's tokenizer: how long a conversation is for it, and whether its chat template gives the answer back.

Encoding is slow beside everything else that ``build`` does, so that texts are encoded only where the answer depends on
it: a text of n bytes has at most n tokens, and a byte-level tokenizer gives back whatever its normaliser leaves alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ptxgym.errors import MissingToolError, MisuseError

MAX_TOKENS = 65_536

_WINDOW = 64
"""Characters on either side of the place where the answer begins that are encoded to see whether tokens span it."""
_FRAME = ("<think>", "</think>")
"""What the answer's own form uses."""


class Student:
    """A tokenizer with a chat template.

    Args:
        tokenizer: A ``transformers`` tokenizer.
        max_tokens: The longest conversation.

    Raises:
        MisuseError: It has no chat template, or the template cannot render a system message and an answer.
    """

    def __init__(self, tokenizer: Any, max_tokens: int = MAX_TOKENS) -> None:
        self.tokenizer, self.max_tokens = tokenizer, max_tokens
        self.name = str(getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__)
        if not getattr(tokenizer, "chat_template", None):
            raise MisuseError(
                f"The tokenizer {self.name} has no chat template, so that nobody knows how the student reads a "
                "conversation. Take that of an instruction-tuned model, or give a template with --chat-template."
            )
        added = [str(token) for token in getattr(tokenizer, "added_tokens_decoder", {}).values()]
        marks = {*map(str, tokenizer.all_special_tokens), *added} - set(_FRAME) - {""}
        marks = {mark for mark in marks if mark.strip() and not mark.isalnum()}
        self._special = re.compile("|".join(map(re.escape, sorted(marks, key=len, reverse=True)))) if marks else None
        self._lossless = _is_byte_level(tokenizer)
        self._probe()

    def objection(self, messages: Sequence[Mapping[str, str]]) -> str:
        """Why a conversation cannot be trained on; empty when it can. The last message is the answer."""
        for message in messages:
            if found := self._special.search(message["content"]) if self._special else None:
                return f"special token in the text: {found[0]}"
        whole = self._render(messages)
        answer = messages[-1]["content"]
        start = whole.rfind(answer)
        if start < 0:
            return "the chat template changes the answer"
        asked = self._render(messages[:-1], ask=True)
        if not (asked.startswith(whole[:start]) and answer.startswith(asked[start:])):
            return "the chat template does not end the prompt where the answer begins"
        if self._too_long(whole):
            return f"over {self.max_tokens:,} tokens"
        if not self._gives_back(whole) or not self._splits_at(whole, len(asked)):
            return "the tokens do not give the answer back"
        return ""

    def count(self, messages: Sequence[Mapping[str, str]]) -> int:
        """Tokens of a conversation, exactly."""
        return len(self._encode(self._render(messages)))

    def _too_long(self, text: str) -> bool:
        if len(text.encode("utf-8", "surrogatepass")) + 8 <= self.max_tokens:
            return False
        return len(self._encode(text)) > self.max_tokens

    def _gives_back(self, text: str) -> bool:
        if self._lossless:
            normaliser = self.tokenizer.backend_tokenizer.normalizer
            return normaliser is None or normaliser.normalize_str(text) == text
        return bool(self._decode(self._encode(text)) == text)

    def _splits_at(self, whole: str, place: int) -> bool:
        """Whether prompt and answer are tokens of their own, as they will be when the student is asked."""
        before, after = whole[max(0, place - _WINDOW) : place], whole[place : place + _WINDOW]
        apart = self._encode(before)
        return self._encode(before + after)[: len(apart)] == apart

    def _render(self, messages: Sequence[Mapping[str, str]], ask: bool = False) -> str:
        plain = [{"role": m["role"], "content": m["content"]} for m in messages]
        return str(self.tokenizer.apply_chat_template(plain, tokenize=False, add_generation_prompt=ask))

    def _encode(self, text: str) -> list[int]:
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        if backend is not None:  # the way through the tokenizer itself costs as much as a short text
            return list(backend.encode(text, add_special_tokens=False).ids)
        return list(self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    def _decode(self, tokens: list[int]) -> str:
        return str(self.tokenizer.decode(tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def _probe(self) -> None:
        from jinja2 import TemplateError

        roles = ("system", "user", "assistant", "user", "assistant")
        try:
            self._render([{"role": role, "content": f"<think>\na\n</think>\n\n{role}"} for role in roles])
        except TemplateError as error:
            raise MisuseError(f"The chat template of {self.name} refuses a repair conversation: {error}") from None


def load_student(path: str, chat_template: Path | None = None, max_tokens: int = MAX_TOKENS) -> Student:
    """The student's tokenizer from a folder, or by a name that is in the local cache or can be fetched.

    Raises:
        MissingToolError: transformers is not installed.
        MisuseError: There is no tokenizer, or it has no chat template.
    """
    try:
        from transformers import AutoTokenizer
    except ImportError:
        raise MissingToolError("transformers", "Install it with: pip install 'ptxgym[train]'") from None
    try:
        tokenizer = AutoTokenizer.from_pretrained(path)
    except (OSError, ValueError) as error:
        raise MisuseError(f"There is no tokenizer in {path}: {str(error).splitlines()[0]}") from None
    if chat_template is not None:
        try:
            tokenizer.chat_template = chat_template.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise MisuseError(f"The chat template {chat_template} cannot be read: {error}.") from None
    return Student(tokenizer, max_tokens)


def _is_byte_level(tokenizer: Any) -> bool:
    """Whether every text can be given back: all 256 bytes are in the vocabulary, and nothing but bytes is merged."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or "ByteLevel" not in str(type(backend.decoder)):
        return False
    from tokenizers import pre_tokenizers

    alphabet = set(pre_tokenizers.ByteLevel.alphabet())
    return alphabet <= set(backend.get_vocab(with_added_tokens=False))
