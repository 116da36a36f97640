"""A position in the tokens, and the operand grammar (PTX ISA 6)."""

from __future__ import annotations

import struct

from ptxgym.devices.simulator.findings import PtxSyntaxError
from ptxgym.devices.simulator.ptx.lexer import Token, number_value, tokens
from ptxgym.devices.simulator.ptx.lines import LineTable
from ptxgym.devices.simulator.ptx.syntax import Address, Group, Name, Number, Operand, Pair, Sum, Vector


class Cursor:
    """Reads tokens one after another and keeps the line table up to date."""

    def __init__(self, text: str) -> None:
        self._tokens = tokens(text)
        self._at = 0
        self._lines = LineTable()

    # -- token access ------------------------------------------------------------------------------

    def _peek(self) -> Token:
        token = self._tokens[self._at]
        while token.kind in ("loc", "file", "asm"):
            self._lines.take(token)
            self._at += 1
            token = self._tokens[self._at]
        return token

    def _next(self) -> Token:
        token = self._peek()
        self._at += 1
        return token

    def _accept(self, text: str) -> bool:
        if self._peek().text == text:
            self._at += 1
            return True
        return False

    def _expect(self, text: str) -> Token:
        token = self._next()
        if token.text != text:
            raise PtxSyntaxError(token.line, repr(text), token.text)
        return token

    def _word(self, what: str) -> str:
        token = self._next()
        if token.kind != "word":
            raise PtxSyntaxError(token.line, what, token.text)
        return token.text

    def _integer(self) -> int:
        sign = -1 if self._accept("-") else 1
        token = self._next()
        if token.kind != "number":
            raise PtxSyntaxError(token.line, "an integer", token.text)
        return sign * number_value(token.text)

    # -- operands ----------------------------------------------------------------------------------

    def _operand(self) -> Operand:
        operand = self._simple_operand()
        if self._accept("|"):
            return Pair(operand, self._simple_operand())
        return operand

    def _simple_operand(self) -> Operand:
        token = self._next()
        text = token.text
        if text == "[":
            return self._address()
        if text == "{":
            return Vector(self._list("}"))
        if text == "(":
            return Group(self._list(")"))
        if text == "!":
            return Name(self._word("a predicate"), negated=True)
        if text == "-":
            return _negate(self._number(self._next()))
        if text == "%" or token.kind in ("number", "float"):
            return self._number(token)
        if token.kind == "word":
            return self._name(text)
        raise PtxSyntaxError(token.line, "an operand", text)

    def _group(self) -> Operand:
        self._expect("(")
        return Group(self._list(")"))

    def _name(self, text: str) -> Operand:
        if self._peek().text in ("+", "-") and not text.startswith("%"):
            sign = 1 if self._next().text == "+" else -1
            return Sum(Name(text), sign * self._integer())
        return Name(text)

    def _number(self, token: Token) -> Number:
        text = token.text
        if token.kind == "number":
            return Number(number_value(text))
        if text[:2] in ("0f", "0F"):
            bits = int(text[2:], 16)
            return Number(struct.unpack("<f", struct.pack("<I", bits))[0], bits, 32)
        if text[:2] in ("0d", "0D"):
            bits = int(text[2:], 16)
            return Number(struct.unpack("<d", struct.pack("<Q", bits))[0], bits, 64)
        if token.kind == "float":
            return Number(float(text))
        raise PtxSyntaxError(token.line, "a number", text)

    def _list(self, end: str) -> tuple[Operand, ...]:
        items: list[Operand] = []
        while not self._accept(end):
            items.append(self._operand())
            if not self._accept(","):
                self._expect(end)
                break
        return tuple(items)

    def _address(self) -> Address:
        base: Operand = self._simple_operand()
        offset = 0
        if isinstance(base, Sum):
            offset, base = base.offset, base.base
        while self._peek().text in ("+", "-"):
            sign = 1 if self._next().text == "+" else -1
            offset += sign * self._integer()
        extra: list[Operand] = []
        while self._accept(","):
            extra.append(self._operand())
        self._expect("]")
        return Address(base, offset, tuple(extra))


def _negate(number: Number) -> Number:
    if number.bits is None:
        return Number(-number.value)
    sign = 1 << (number.width - 1)
    return Number(-number.value, number.bits ^ sign, number.width)
