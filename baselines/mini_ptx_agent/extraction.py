"""The last complete kernel of an answer: fenced or not, among several blocks, or before the point where it was cut.

A closed fence is its author's word that the block is whole, so that such a block is submitted even when its braces do
not match: the compiler says more about that than we could. Without a closing fence the braces must match.
"""

from __future__ import annotations

import re

from baselines.mini_ptx_agent.conversation import Answer
from baselines.mini_ptx_agent.exceptions import UnusableAnswer

_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*([^\s`]*)[^\n`]*$", re.MULTILINE)
_CODE_BEGINS = re.compile(
    r"^[ \t]*(?:#[ \t]*(?:include|define|pragma|if)|//|/\*|extern\b|template\b|namespace\b|static\b|constexpr\b|"
    r"using\s+\w+\s*[\w:]*\s*[=;]|typedef\b|struct\s+\w+\s*[{;:]|__(?:global|device|constant|host)__\b)",
    re.MULTILINE,
)
_SKIPPED = re.compile(
    r'//[^\n]*|/\*.*?(?:\*/|\Z)|R"(?P<mark>[^()\\\s]{0,16})\(.*?(?:\)(?P=mark)"|\Z)|"(?:\\.|[^"\\\n])*"|'
    r"'(?:\\.|[^'\\\n])+'|[{}]",
    re.DOTALL,
)
_ENTRY = re.compile(r"\brun\s*\(")
_EXPORTS = re.compile(r'extern\s*"C"|TVM_FFI_DLL_EXPORT_TYPED_FUNC')

_FORMAT = "Answer with one fenced block that holds the whole of kernel.cu."


def extract_kernel(answer: Answer) -> str:
    """The source in an answer.

    Raises:
        UnusableAnswer: There is none; its message tells the model why.
    """
    if answer.source is not None:
        return answer.source
    text = answer.text.replace("\r\n", "\n")
    blocks = list(_blocks(text))
    whole = [source for source, closed in blocks if _exports_run(source) and (closed or _is_whole(source))]
    if whole:
        return whole[-1]
    if not blocks and (source := _unfenced(text)):
        return source
    raise UnusableAnswer(_complaint(answer, found_code=bool(blocks)))


def _blocks(text: str) -> list[tuple[str, bool]]:
    """Every fenced block, and whether its fence was closed."""
    blocks, opening = [], None
    for fence in _FENCE.finditer(text):
        marks, language = fence[1], fence[2]
        if opening is None:
            opening = fence
        elif not language and marks.startswith(opening[1]):
            blocks.append((text[opening.end() + 1 : fence.start()], True))
            opening = None
        elif language:  # a new block begins inside one that was given up, or whose end was forgotten
            blocks.append((text[opening.end() + 1 : fence.start()], False))
            opening = fence
    if opening is not None:
        blocks.append((text[opening.end() + 1 :], False))
    return blocks


def _unfenced(text: str) -> str:
    """An answer that is a bare source, perhaps with prose around it; empty when it is none."""
    begins = _CODE_BEGINS.search(text)
    if not begins:
        return ""
    lines = text[begins.start() :].split("\n")
    while lines and not re.search(r"(?:[};]|#[ \t]*endif.*|\*/)[ \t]*(?://.*)?$", lines[-1]):
        lines.pop()
    source = "\n".join(lines)
    return source + "\n" if _exports_run(source) and _is_whole(source) else ""


def _exports_run(source: str) -> bool:
    return bool(_EXPORTS.search(source) and _ENTRY.search(source))


def _is_whole(source: str) -> bool:
    """Whether nothing seems to be missing: ``run`` has a body, the last token can be one, and the braces match."""
    code = _SKIPPED.sub(lambda token: "" if token[0].startswith("/") else token[0], source).rstrip()
    last_line = code.rpartition("\n")[2].lstrip()
    entries = list(_ENTRY.finditer(code))
    ends = code.endswith(("}", ";")) or last_line.startswith(("#", "TVM_FFI"))
    return ends and bool(entries) and "{" in code[entries[0].end() :] and _balanced(source)


def _balanced(source: str) -> bool:
    """Whether every brace outside comments and literals has its partner."""
    depth = 0
    for token in _SKIPPED.finditer(source):
        depth += {"{": 1, "}": -1}.get(token[0], 0)
        if depth < 0:
            return False
    return depth == 0


def _complaint(answer: Answer, found_code: bool) -> str:
    if answer.finish == "length":
        used = f" after {answer.usage.completion_tokens:,} tokens" if answer.usage.completion_tokens else ""
        return f"UNUSABLE ANSWER: it was cut off{used}, before a whole kernel stood there. Be shorter. {_FORMAT}"
    if answer.finish == "tool_calls":
        return f"UNUSABLE ANSWER: it called a tool, and there are none. {_FORMAT}"
    if answer.finish in ("content_filter", "refusal"):
        return f"UNUSABLE ANSWER: it was refused or withheld. The task is an ordinary GPU kernel. {_FORMAT}"
    if not answer.text.strip():
        return f"UNUSABLE ANSWER: it was empty. {_FORMAT}"
    if found_code:
        return f'UNUSABLE ANSWER: no block is a whole source that exports run with extern "C". {_FORMAT}'
    return f"UNUSABLE ANSWER: it holds no source. {_FORMAT}"
