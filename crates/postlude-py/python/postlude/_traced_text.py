"""From a graph of traced values to a kernel's text.

In: a signature, the results, and the names of the function's variables. Out: text with the fewest parentheses with which
Python groups it as the language does: in Python `@` binds as `*` does, and comparisons are looser than `&`.
Invariant: a value that is read more than once is one statement; statements stand in the order of the function.
"""

from __future__ import annotations

from itertools import count
from typing import Callable, Container, Iterable, Optional, Union

from ._value import INFIX, Constant, Level, Value, is_operand

#: An expression past either of these is given a name of its own, so that lines stay readable and nesting is bounded.
_LONGEST, _DEEPEST = 160, 24
#: A signature past this is broken into lines.
_WIDTH = 110

_PREFIX = {"-x": "-", "!x": "!", "~x": "~"}


def used_name(name: str, taken: Container[str]) -> str:
    """The name, or the name with the first number that makes it free."""
    if name not in taken:
        return name
    return next(f"{name}{number}" for number in count(1) if f"{name}{number}" not in taken)


def reachable(results: Iterable[Value]) -> list[Value]:
    """Every value that the results read, in the order in which they were made."""
    found: dict[int, Value] = {}
    waiting = list(results)
    while waiting:
        value = waiting.pop()
        if value.order not in found:
            found[value.order] = value
            waiting += [one for one in value.arguments if isinstance(one, Value)]
    return [found[order] for order in sorted(found)]


def compose(value: Value, show: Callable[[Union[Value, Constant]], Constant]) -> Constant:
    """An expression of arguments that are texts already."""

    def within(argument: Union[Value, Constant], loosest: Level, misread: tuple[Level, ...] = ()) -> str:
        text, level = show(argument)
        return f"({text})" if level < loosest or level in misread else text

    head, arguments = value.head, value.arguments
    if head in INFIX:
        symbol, level, left, right = INFIX[head]
        condition = (Level.COMPARISON,) if level <= Level.AND else ()
        product = (Level.PRODUCT,) if level == Level.TERM else ()
        return Constant(
            f"{within(arguments[0], left, condition)} {symbol} {within(arguments[1], right, condition + product)}", level
        )
    if head in _PREFIX:
        inner = within(arguments[0], Level.PREFIX, (Level.PRODUCT,))
        inner = f"({inner})" if inner.startswith("-") else inner
        return Constant(_PREFIX[head] + inner, Level.PREFIX)
    if head == ".T":
        return Constant(f"{within(arguments[0], Level.OPERAND)}.T", Level.OPERAND)
    if head.startswith(("name ", "word ")):
        return Constant(head[5:], Level.OPERAND)
    if head.startswith("part "):
        return Constant(f"{within(arguments[0], Level.OR)} part {head[5:]}", Level.OR)
    inner = ", ".join(within(one, Level.OR) for one in arguments)
    return Constant(f"{head.removesuffix('()')}({inner})", Level.OPERAND)


def excerpt(value: Value, depth: int = 4) -> str:
    """The beginning of a value's expression, for messages."""

    def show(argument: Union[Value, Constant], left: int) -> Constant:
        if isinstance(argument, Constant):
            return argument
        if left == 0 and not is_operand(argument) and argument.arguments:
            return Constant("...", Level.OPERAND)
        return compose(argument, lambda inner: show(inner, max(left - 1, 0)))

    return show(value, depth).text


class Writer:
    """Writes the statements of one kernel.

    ``results`` are the outputs' names and values, ``variables`` names of the function for values by their order.
    """

    def __init__(
        self, inputs: Iterable[str], results: list[tuple[str, Value]], variables: dict[int, str], reserved: Container[str]
    ) -> None:
        self._reserved = reserved
        self._taken = {*inputs, *(name for name, _ in results)}
        self._variables = variables
        self._shown: dict[int, Constant] = {}
        self._depths: dict[int, int] = {}
        self.statements: list[str] = []
        values = reachable(value for _, value in results)
        self._count_uses(values)
        outputs: dict[int, list[str]] = {}
        for name, value in results:
            outputs.setdefault(value.order, []).append(name)
        splits: dict[int, dict[str, Value]] = {}
        for value in values:
            if value.head.startswith("part "):
                splits.setdefault(_split_of(value).order, {})[value.head[5:]] = value
        for value in values:
            self._write(value, outputs.get(value.order, []), outputs, splits)

    def _count_uses(self, values: list[Value]) -> None:
        self._uses: dict[int, int] = {}
        for value in values:
            for argument in value.arguments:
                if isinstance(argument, Value):
                    self._uses[argument.order] = self._uses.get(argument.order, 0) + 1

    def _write(
        self, value: Value, names: list[str], outputs: dict[int, list[str]], splits: dict[int, dict[str, Value]]
    ) -> None:
        order = value.order
        if order in splits:
            self._write_split(value, splits[order], outputs)
            return
        if value.head.startswith("part "):
            # The statement of the split has named it; further outputs repeat it.
            for name in names[1:]:
                self.statements.append(f"{name} = {names[0]}")
            return
        expression = compose(value, self._show)
        depth = 1 + max((self._depths.get(one.order, 0) for one in value.arguments if isinstance(one, Value)), default=0)
        whole = is_operand(value) or value.head.startswith("word ")
        long = len(expression.text) > _LONGEST or depth > _DEEPEST
        if names or (not whole and (self._uses.get(order, 0) > 1 or order in self._variables or long)):
            name = names[0] if names else self._name(value)
            self.statements.append(f"{name} = {expression.text}")
            self.statements += [f"{other} = {name}" for other in names[1:]]
            # A product reads its operands where they are declared, also where an output repeats one.
            expression = expression if whole else Constant(name, Level.OPERAND)
            depth = 0
        self._shown[order] = expression
        self._depths[order] = depth

    def _write_split(self, split: Value, parts: dict[str, Value], outputs: dict[int, list[str]]) -> None:
        names = []
        of = next(iter(parts)).partition(" of ")[2]
        for place in range(int(of)):
            part = parts.get(f"{place} of {of}")
            own = outputs.get(part.order) if part is not None else None
            name = own[0] if own else self._name(part)
            if part is not None:
                self._shown[part.order] = Constant(name, Level.OPERAND)
            names.append(name)
        self.statements.append(f"{', '.join(names)} = {compose(split, self._show).text}")

    def _show(self, argument: Union[Value, Constant]) -> Constant:
        return argument if isinstance(argument, Constant) else self._shown[argument.order]

    def _name(self, value: Optional[Value]) -> str:
        """A free name: the variable's where there is one."""
        own = self._variables.get(value.order) if value is not None else None
        if own is not None and own not in self._reserved:
            name = used_name(own, self._taken)
        else:
            name = next(f"v{number}" for number in count(1) if f"v{number}" not in self._taken)
        self._taken.add(name)
        return name


def _split_of(part: Value) -> Value:
    split = part.arguments[0]
    assert isinstance(split, Value)
    return split


def kernel_text(
    name: str, inputs: list[str], outputs: list[str], statements: list[str], description: Optional[str]
) -> str:
    """The whole kernel, laid out as the library's are."""
    given, stored = ", ".join(inputs), ", ".join(outputs)
    stored = stored if len(outputs) == 1 else f"({stored})"
    first = f"kernel {name}({given}) -> {stored} {{"
    if len(first) > _WIDTH:
        first = f"kernel {name}(\n    {given},\n) -> {stored} {{"
    comment = [f"# {description}"] if description else []
    return "\n".join([*comment, first, *(f"    {one}" for one in statements), "}"]) + "\n"
