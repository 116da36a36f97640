"""Sources as text: what counts as the same kernel, what two kernels share, and masks for looking at code alone."""

from __future__ import annotations

import difflib
import re

from baselines.fixit.records import content_id

_LITERAL = r'R"(?P<mark>[^()\\\s]{0,16})\(.*?(?:\)(?P=mark)"|\Z)|"(?:\\.|[^"\\\n])*"|' + r"'(?:\\.|[^'\\\n])+'"
_TOKEN = re.compile(
    rf"(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))|(?P<literal>{_LITERAL})|(?P<word>\w+)|(?P<space>\s+)|.", re.DOTALL
)
_SKIPPED = re.compile(rf"(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))|(?P<literal>{_LITERAL})", re.DOTALL)
_NOT_NEWLINE = re.compile(r"[^\n]")


def normalise(source: str) -> str:
    """The code alone: without comments, white space reduced to one space between tokens; identifiers stay.

    Two kernels that differ only in layout and comments are the same; two that name a variable differently are not.
    Text inside string literals, and so inline PTX, is kept as it is.
    """
    return " ".join(
        token[0] for token in _TOKEN.finditer(source) if not token["comment"] and not (token["space"] is not None)
    )


def same_code(a: str, b: str) -> bool:
    """Whether two sources are the same code."""
    return normalise(a) == normalise(b)


def code_id(env: str, source: str) -> str:
    """The id of a kernel for a task: that of its normalised code."""
    return content_id(env, normalise(source))


def kept_share(before: str, after: str) -> float:
    """Share of the lines of ``before`` that ``after`` still has, in order; 1 when nothing was taken away."""
    old = [line.strip() for line in before.splitlines() if line.strip()]
    new = [line.strip() for line in after.splitlines() if line.strip()]
    if not old:
        return 1.0
    blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
    return sum(block.size for block in blocks) / len(old)


def changed_lines(before: str, after: str, context: int = 0) -> tuple[str, str]:
    """The lines that differ, of each of two sources."""
    old, new = before.splitlines(), after.splitlines()
    removed: list[str] = []
    added: list[str] = []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            removed += old[max(0, a - context) : b + context]
            added += new[max(0, c - context) : d + context]
    return "\n".join(removed), "\n".join(added)


def without_comments(source: str) -> str:
    """The source at its length, comments replaced by spaces."""
    return _SKIPPED.sub(lambda found: _blank(found[0]) if found["comment"] else found[0], source)


def code_alone(source: str) -> str:
    """The source at its length, comments and the insides of literals replaced by spaces, so that braces match."""
    return _SKIPPED.sub(lambda found: _blank(found[0]) if found["comment"] else _hollow(found[0]), source)


def fenced(source: str) -> str:
    """A source in a Markdown fence that is longer than any in it."""
    fence = "```"
    while fence in source:
        fence += "`"
    return f"{fence}cpp\n{source.rstrip()}\n{fence}"


def _blank(text: str) -> str:
    return _NOT_NEWLINE.sub(" ", text)


def _hollow(literal: str) -> str:
    """A literal with its quotes and nothing between them."""
    return literal[0] + _blank(literal[1:-1]) + literal[-1] if len(literal) > 1 else " "
