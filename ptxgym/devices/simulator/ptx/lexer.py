"""PTX text to tokens (PTX ISA 4.1-4.4)."""

from __future__ import annotations

import re
from typing import NamedTuple


class Token(NamedTuple):
    """One lexical element."""

    kind: str
    """``word``, ``number``, ``float``, ``string``, ``punctuation``, ``loc``, ``file``, ``asm`` or ``end``."""
    text: str
    line: int


# nvcc marks inline assembly with comments; the marks tell which frame of an inlined chain is the writer's.
_PATTERN = re.compile(
    r"""
    (?P<newline>\n)
  | (?P<space>[ \t\r\f\v]+)
  | (?P<asm>//[ ]*(?:begin|end)[ ]inline[ ]asm[^\n]*)
  | (?P<comment>//[^\n]*|/\*.*?\*/)
  | (?P<loc>\.loc\b[^\n]*)
  | (?P<file>\.file\b[^\n]*)
  | (?P<float>0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)
  | (?P<number>(?:0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?)
  | (?P<word>%?[A-Za-z_$](?:[\w$.]|::)*|\.[A-Za-z_](?:\w|::)*)
  | (?P<string>"[^"]*")
  | (?P<punctuation>[{}()\[\],;:@!|+\-=<>*/&^~?%.])
""",
    re.VERBOSE | re.DOTALL,
)


def tokens(text: str) -> list[Token]:
    """All tokens of a file; an unreadable character becomes a ``punctuation`` token for the parser to refuse."""
    result: list[Token] = []
    line = 1
    position = 0
    match = _PATTERN.match
    size = len(text)
    while position < size:
        found = match(text, position)
        if found is None:
            result.append(Token("punctuation", text[position], line))
            position += 1
            continue
        kind = str(found.lastgroup)
        position = found.end()
        if kind == "newline":
            line += 1
        elif kind == "comment":
            line += found.group().count("\n")
        elif kind != "space":
            result.append(Token(kind, found.group(), line))
    result.append(Token("end", "", line))
    return result


def number_value(text: str) -> int:
    """The value of an integer literal (PTX ISA 4.5.1); a leading 0 means octal there."""
    digits = text.rstrip("U")
    if len(digits) > 1 and digits[0] == "0" and digits.isdigit():
        return int(digits, 8) if all(d < "8" for d in digits) else int(digits)
    return int(digits, 0)
