"""Why a reasoning cannot be used: a leak that the answer was shown, a token of the template, a wrong length.

The words for leaks decide only whether a reasoning is asked for again, so that a false alarm costs one more answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SPECIAL_TOKEN = re.compile(
    r"<\|[^|\s<>]{1,40}\|>|</?think(?:ing)?>|</?s>|<(?:bos|eos|pad|unk)>|\[/?INST\]|<(?:start|end)_of_turn>"
)
"""Marks of chat templates in common use; those of the student's own tokenizer are checked when a data set is built."""

_ANSWER = r"(?:fix|solution|answer|repair|patch)"
_LEAKS = (
    rf"\b(?:given|provided|shown|supplied|expected|known|target) {_ANSWER}\b",
    rf"\b(?:reference|golden|ground[- ]truth) (?:kernel|version|code|source|implementation|{_ANSWER})\b",
    r"\b(?:the|this) (?:fixed|corrected|repaired|final|next|later|passing) (?:kernel|version|code|source)\b",
    rf"\b(?:kernel|version|code|source|{_ANSWER}) (?:that )?(?:I was|I am|I've been|was|is) (?:given|shown|provided)\b",
    r"\bground[- ]truth\b",
    r"\b(?:compar\w+|diff\w*) (?:the two|both) (?:kernels|versions|sources)\b",
    r"\b(?:the|this) diff\b",
    r"\bthe engineer\b",
    r"\b(?:teacher|student)\b",
    r"\btrain of thought\b",
    r"\b(?:I was|I am|I've been|I'm) (?:asked|told|supposed) to (?:explain|write down|describe|justify)\b",
    r"\bas an? (?:AI|language model)\b",
)
_LEAK = re.compile("|".join(f"(?:{pattern})" for pattern in _LEAKS), re.IGNORECASE)
_FIRST_PERSON = re.compile(r"\b(?:I|I'm|I'll|I've|me|my|we|let's|let me)\b")
_CODE_BLOCK = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)


@dataclass(frozen=True)
class Limits:
    """What a reasoning may be."""

    shortest: int = 200
    """Characters."""
    longest: int = 60_000
    """Characters."""
    quoted_lines: int = 40
    """Lines of code in fences: more is the answer itself."""


def objection(text: str, limits: Limits, own_words: str = "") -> str:
    """Why a reasoning cannot be used, in a word and a quotation; empty when it can.

    Args:
        text: The reasoning.
        limits: Lengths.
        own_words: What the engineer has really seen (the task, the feedback): a phrase from there is no leak.
    """
    if len(text) < limits.shortest:
        return "too short"
    if len(text) > limits.longest:
        return "too long"
    if found := SPECIAL_TOKEN.search(text):
        return f"forbidden: {found[0]}"
    seen = own_words.lower()
    for leak in _LEAK.finditer(text):
        if leak[0].lower() not in seen:
            return f"leak: {leak[0]}"
    quoted = sum(block[0].count("\n") for block in _CODE_BLOCK.finditer(text))
    if quoted > limits.quoted_lines:
        return "quotes a whole source"
    return "" if _FIRST_PERSON.search(text) else "not in the first person"
