"""The grammar of docs/language.md, read a second time and independently of Postlude.

In: the text of a kernel with a signature. Out: a `Program`: what is declared, and statements whose expressions are nested
tuples that begin with their kind. Invariant: operators bind as the grammar says, so `alpha * A @ W.T` is a product times
alpha. The text is taken to be one that Postlude accepts: nothing is checked but the shape of the text.
"""

import re
from typing import NamedTuple, Optional

TOKEN = re.compile(r"#[^\n]*|[ \t\r]+|(\n|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[A-Za-z_]\w*|->|<<|>>|[<>=!]=|\S)")
#: A newline after one of these does not end a statement.
CONTINUES = set("+ - * / @ & | ^ << >> < <= > >= == != = , ! ~ ( [ { ;".split())
LEVELS = [("|",), ("^",), ("&",), ("<", "<=", ">", ">=", "==", "!="), ("<<", ">>"), ("+", "-"), ("*", "/")]


class Declaration(NamedTuple):
    name: str
    dtype: str
    #: Names with their divisors; None is a number that the host passes.
    dims: Optional[tuple[tuple[str, int], ...]]


class Program(NamedTuple):
    name: str
    inputs: list[Declaration]
    outputs: list[Declaration]
    #: Assigned names and the expression.
    statements: list[tuple[list[str], tuple]]
    #: Parameters and expression of each function that is defined before the kernel.
    definitions: dict[str, tuple[list[str], tuple]]
    #: Inputs that are others under other dims, which a call does not pass, and what they are.
    second: list[tuple[Declaration, str]]


class Parser:
    def __init__(self, text):
        self.tokens = [token for token in TOKEN.findall(text) if token] + [""]
        self.at = 0
        self.depth = 0
        self.second = []

    def peek(self):
        """The next token; newlines inside of parentheses and after operators are none."""
        while self.tokens[self.at] == "\n" and (self.depth or self.at == 0 or self.tokens[self.at - 1] in CONTINUES):
            del self.tokens[self.at]
        return self.tokens[self.at]

    def take(self, expected=None):
        token = self.peek()
        if expected is not None and token != expected:
            raise SyntaxError(f"expected {expected!r}, found {token!r} before {' '.join(self.tokens[self.at + 1 :][:8])!r}")
        self.depth += (token in ("(", "[")) - (token in (")", "]"))
        self.at += 1
        return token

    def taken(self, token):
        if self.peek() != token:
            return False
        self.take()
        return True

    def several(self, one, end):
        """Comma-separated, with a trailing comma allowed, up to and with the closing token."""
        found = []
        while not self.taken(end):
            found.append(one())
            if not self.taken(","):
                self.take(end)
                break
        return found

    def definition(self):
        name = self.take()
        self.take("(")
        parameters = self.several(self.take, ")")
        self.take("=")
        return name, (parameters, self.binary(0))

    def kernel(self):
        definitions = {}
        while self.peek() in ("\n", ";", "def"):
            if self.take() == "def":
                name, defined = self.definition()
                definitions[name] = defined
        self.take("kernel")
        name = self.take()
        # Newlines mean nothing in a signature.
        self.depth += 1
        self.take("(")
        inputs = [one for one in self.several(self.declaration, ")") if one is not None]
        self.take("->")
        outputs = self.several(self.declaration, ")") if self.taken("(") else [self.declaration()]
        self.take("{")
        self.depth -= 1
        statements = []
        while not self.taken("}"):
            if not self.taken("\n") and not self.taken(";"):
                statements.append(self.statement())
        return Program(name, inputs, outputs, statements, definitions, self.second)

    def declaration(self):
        name = self.take()
        self.take(":")
        dtype = self.take()
        declared = Declaration(name, dtype, tuple(self.several(self.dim, "]")) if self.taken("[") else None)
        if self.taken("="):
            self.second.append((declared, self.take()))
            return None
        return declared

    def dim(self):
        name = self.take()
        return name, int(self.take()) if self.taken("/") else 1

    def statement(self):
        names = [self.take()]
        while self.taken(","):
            names.append(self.take())
        self.take("=")
        return names, self.binary(0)

    def binary(self, level):
        if level == len(LEVELS):
            return self.prefixed()
        left = self.binary(level + 1)
        while self.peek() in LEVELS[level]:
            left = ("binary", self.take(), left, self.binary(level + 1))
        return left

    def prefixed(self):
        if self.peek() in ("-", "!", "~"):
            return ("unary", self.take(), self.prefixed())
        left = self.postfixed()
        while self.taken("@"):
            left = ("product", left, self.postfixed())
        return left

    def argument(self):
        """An expression, or a list of dims."""
        return ("dims", self.several(self.dim, "]")) if self.taken("[") else self.binary(0)

    def postfixed(self):
        value = self.primary()
        while self.taken("."):
            self.take("T")
            value = ("transpose", value)
        return value

    def primary(self):
        token = self.take()
        if token == "(":
            value = self.binary(0)
            self.take(")")
            return value
        if token[0].isdigit() or token[0] == ".":
            return ("number", token)
        if token == "grad":
            self.take("(")
            name = self.take()
            self.take(")")
            self.take("(")
            return ("gradient", name, self.several(lambda: self.binary(0), ")"))
        if self.taken("("):
            return ("call", token, self.several(self.argument, ")"))
        if self.taken("["):
            self.several(self.dim, "]")
        return ("name", token)


def parse(text):
    return Parser(text).kernel()
