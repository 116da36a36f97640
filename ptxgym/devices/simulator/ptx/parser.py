"""PTX tokens to the syntax tree.

The grammar is the union of what the two dialects of nvcc 13 emit (sm_90a: typed registers, near-SSA;
sm_100a: untyped registers, ``.ptr`` parameters) and what inline assembly adds (nested scopes, repeated
labels, instructions without spaces).  Nothing here knows an opcode, except ``call``'s parentheses.
"""

from __future__ import annotations

from ptxgym.devices.simulator.findings import PtxSyntaxError, SourceLine
from ptxgym.devices.simulator.ptx.cursor import Cursor
from ptxgym.devices.simulator.ptx.lexer import Token
from ptxgym.devices.simulator.ptx.syntax import (
    Function,
    Instruction,
    Name,
    Number,
    Operand,
    Scope,
    Sum,
    Translation,
    Variable,
)

_LINKAGE = {".visible", ".extern", ".weak", ".common"}
_SPACES = {".shared", ".global", ".const", ".local", ".param"}
_FUNCTION_DIRECTIVES = {
    ".maxntid", ".reqntid", ".minnctapersm", ".maxnctapersm", ".maxnreg", ".reqnctapercluster",
    ".explicitcluster", ".maxclusterrank", ".noreturn", ".blocksareclusters", ".abi_preserve",
    ".abi_preserve_control", ".unique", ".language",
}  # fmt: skip


def parse(text: str) -> Translation:
    """Parse a PTX file.

    Raises:
        PtxSyntaxError: With the PTX line, what was expected and what stood there.
    """
    return _Parser(text).translation()


class _Parser(Cursor):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._unit = Translation()
        self._scopes = 0

    # -- module level ------------------------------------------------------------------------------

    def translation(self) -> Translation:
        while (token := self._peek()).kind != "end":
            if token.text == ".version":
                self._at += 1
                self._unit.version = self._next().text
            elif token.text == ".target":
                self._at += 1
                self._unit.target = self._word("a target")
                while self._accept(","):
                    self._word("a target option")
            elif token.text == ".address_size":
                self._at += 2
            elif token.text == ".section":
                self._skip_section()
            elif token.text == ".alias":
                self._skip_statement()
            elif token.text in (";", "}"):
                self._at += 1
            else:
                self._module_declaration()
        self._lines.finish(self._unit)
        return self._unit

    def _skip_section(self) -> None:
        while self._next().text != "{":
            pass
        depth = 1
        while depth:
            text = self._next().text
            depth += (text == "{") - (text == "}")
            if not text:
                return

    def _skip_statement(self) -> None:
        while self._next().text not in (";", ""):
            pass

    def _module_declaration(self) -> None:
        extern = False
        while self._peek().text in _LINKAGE:
            extern |= self._next().text == ".extern"
        token = self._peek()
        if token.text in (".entry", ".func"):
            self._function(extern)
        elif token.text == ".pragma":
            self._skip_statement()
        else:
            for variable in self._variables(extern):
                self._unit.variables[variable.name] = variable
                self._unit.scope.variables[variable.name] = variable

    # -- variables ---------------------------------------------------------------------------------

    def _variables(self, extern: bool = False) -> list[Variable]:
        space = self._word("a state space")
        if space.split("::")[0] not in _SPACES:
            raise PtxSyntaxError(self._tokens[self._at - 1].line, "a declaration", space)
        align, kind = self._type()
        result = [self._declarator(space[1:], align, kind, extern)]
        while self._accept(","):
            result.append(self._declarator(space[1:], align, kind, extern))
        self._expect(";")
        return result

    def _type(self) -> tuple[int, str]:
        align = 0
        repeat = 1
        while True:
            word = self._word("a type")
            if word == ".align":
                align = self._integer()
            elif word == ".ptr":
                if self._peek().text in (".global", ".shared", ".local", ".const"):
                    self._at += 1
            elif word == ".attribute":
                self._group()
            elif word in (".v2", ".v4", ".v8"):
                repeat = int(word[2:])
            else:
                return align, word[1:] if repeat == 1 else f"v{repeat}.{word[1:]}"
            if self._peek().kind != "word" or not self._peek().text.startswith("."):
                break
        return align, "b8"

    def _declarator(self, space: str, align: int, kind: str, extern: bool) -> Variable:
        name = self._word("a variable name")
        count = 1
        while self._accept("["):
            if self._accept("]"):
                count = 0
                continue
            count *= self._integer()
            self._expect("]")
        initial: tuple[int | float | str, ...] = ()
        if self._accept("="):
            initial = tuple(self._initialiser())
            if count == 0:
                count = len(initial)
        return Variable(space, kind, name, align, count, initial, extern)

    def _initialiser(self) -> list[int | float | str]:
        if self._accept("{"):
            values: list[int | float | str] = []
            while not self._accept("}"):
                values += self._initialiser()
                self._accept(",")
            return values
        operand = self._operand()
        if isinstance(operand, Number):
            return [operand.value if operand.bits is None else operand.bits]
        if isinstance(operand, Name):
            if self._accept("("):  # generic(symbol)
                inner = self._word("a symbol")
                self._expect(")")
                return [inner]
            return [operand.text]
        if isinstance(operand, Sum):
            return [f"{operand.base.text}+{operand.offset}"]
        raise PtxSyntaxError(self._peek().line, "an initialiser", self._peek().text)

    def _parameters(self) -> tuple[Variable, ...]:
        result: list[Variable] = []
        self._expect("(")
        while not self._accept(")"):
            space = self._word("a parameter")
            align, kind = self._type()
            while self._peek().text == ".ptr":
                extra, _ = self._type()
                align = align or extra
            if kind == "b8" and self._peek().text.startswith("."):
                align, kind = self._type()
            result.append(self._declarator(space[1:], align, kind, False))
            self._accept(",")
        return tuple(result)

    # -- functions ---------------------------------------------------------------------------------

    def _function(self, extern: bool) -> None:
        is_entry = self._next().text == ".entry"
        if self._peek().text == ".attribute":
            self._next()
            self._group()
        results: tuple[Variable, ...] = ()
        if self._peek().text == "(":
            results = self._parameters()
        name = self._word("a function name")
        parameters = self._parameters() if self._peek().text == "(" else ()
        scope = self._new_scope(self._unit.scope)
        function = Function(name, is_entry, results, parameters, scope)
        for variable in (*results, *parameters):
            if variable.space == "reg":
                scope.registers[variable.name] = variable.type
            else:
                scope.variables[variable.name] = variable
        self._directives(function)
        if self._accept(";") or extern:
            self._unit.functions.setdefault(name, function)
            return
        self._expect("{")
        self._lines.enter(self._next_line())
        self._block(function, scope)
        function.defined = True
        self._unit.functions[name] = function

    def _next_line(self) -> int:
        return self._tokens[self._at].line

    def _new_scope(self, parent: Scope) -> Scope:
        self._scopes += 1
        return Scope(parent, self._scopes)

    def _directives(self, function: Function) -> None:
        while self._peek().text in _FUNCTION_DIRECTIVES or self._peek().text == ".pragma":
            word = self._next().text
            if word == ".pragma":
                self._skip_statement()
                continue
            values: list[int] = []
            while self._peek().kind == "number":
                values.append(self._integer())
                self._accept(",")
            function.directives[word[1:]] = tuple(values)

    # -- statements --------------------------------------------------------------------------------

    def _block(self, function: Function, scope: Scope) -> None:
        while True:
            token = self._peek()
            if token.text == "}":
                self._at += 1
                return
            if token.kind == "end":
                raise PtxSyntaxError(token.line, "'}'", "the end of the file")
            self._statement(function, scope, token)

    def _statement(self, function: Function, scope: Scope, token: Token) -> None:
        if token.text == "{":
            self._at += 1
            self._block(function, self._new_scope(scope))
        elif token.text == ";":
            self._at += 1
        elif token.text.startswith("."):
            self._body_directive(scope, token.text)
        elif token.kind == "word" and self._tokens[self._at + 1].text == ":":
            self._at += 2
            self._label(function, scope, token.text)
        else:
            self._instruction(function, scope)

    def _label(self, function: Function, scope: Scope, name: str) -> None:
        if self._peek().text in (".branchtargets", ".calltargets"):
            self._at += 1
            names = [self._word("a label")]
            while self._accept(","):
                names.append(self._word("a label"))
            self._expect(";")
            scope.targets[name] = tuple(names)
        elif self._peek().text == ".callprototype":
            self._skip_statement()
        else:
            scope.labels[name] = len(function.body)

    def _body_directive(self, scope: Scope, word: str) -> None:
        if word == ".reg":
            self._at += 1
            self._registers(scope)
        elif word.split("::")[0] in _SPACES:
            for variable in self._variables():
                scope.variables[variable.name] = variable
        else:
            self._skip_statement()

    def _registers(self, scope: Scope) -> None:
        _, kind = self._type()
        while True:
            name = self._word("a register name")
            if self._accept("<"):
                scope.ranges[name] = (self._integer(), kind)
                self._expect(">")
            else:
                scope.registers[name] = kind
            if not self._accept(","):
                break
        self._expect(";")

    def _instruction(self, function: Function, scope: Scope) -> None:
        predicate = None
        if self._accept("@"):
            negated = self._accept("!")
            predicate = Name(self._word("a predicate"), negated)
        token = self._next()
        if token.kind != "word":
            raise PtxSyntaxError(token.line, "an instruction", token.text)
        where = self._lines.where(token.line)
        operands: list[Operand] = []
        while self._peek().text not in (";", "}"):
            operands.append(self._operand())
            if not self._accept(","):
                break
        if self._peek().text != "}":
            self._expect(";")
        function.body.append(Instruction(token.text, predicate, tuple(operands), scope, where, token.line))


__all__ = ["SourceLine", "parse"]
