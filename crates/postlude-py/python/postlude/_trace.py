"""``postlude.kernel``: a plain Python function, traced into the text of a kernel.

In: a function with annotations. Out: a :class:`Kernel` of the text that its operators and calls wrote.
Invariant: the function runs once, when it is decorated, on values without data; the text is all that is kept.

>>> from postlude import kernel
>>> from postlude.lang import absmax, bf16, f32, gelu
>>> @kernel
... def linear_gelu(A: bf16["M", "K"], W: bf16["N", "K"], bias: f32["N"]) -> tuple[bf16["M", "N"], f32[()]]:
...     '''Linear layer with GELU, and its largest magnitude.'''
...     g = gelu(A @ W.T + bias)
...     amax = absmax(g)
...     return g, amax
>>> print(linear_gelu)
# Linear layer with GELU, and its largest magnitude
kernel linear_gelu(A: bf16[M, K], W: bf16[N, K], bias: f32[N]) -> (g: bf16[M, N], amax: f32[]) {
    g = gelu(A @ W.T + bias)
    amax = absmax(g)
}
"""

from __future__ import annotations

import inspect
import sys
from collections import ChainMap
from difflib import get_close_matches
from typing import (
    Annotated,
    Any,
    Callable,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    TypeVar,
    Union,
    get_args,
    get_origin,
    overload,
)

from ._errors import KernelError
from ._kernel import Kernel, TracedKernel
from ._traced_text import Writer, kernel_text, reachable, used_name
from ._value import Value, named, recording, refuse
from .lang import _RESERVED, DType, TensorType, _dim, _dtypes

_Function = Callable[..., Any]
_Results = TypeVar("_Results")


@overload
def kernel(function: Callable[..., _Results], /) -> TracedKernel[_Results]: ...


@overload
def kernel(
    *,
    math: str = "default",
    threads: Optional[int] = None,
    outputs: Optional[Sequence[str]] = None,
    backend: Optional[str] = None,
) -> Callable[[Callable[..., _Results]], TracedKernel[_Results]]: ...


def kernel(
    function: Optional[_Function] = None,
    /,
    *,
    math: str = "default",
    threads: Optional[int] = None,
    outputs: Optional[Sequence[str]] = None,
    backend: Optional[str] = None,
) -> Union[Kernel, Callable[[_Function], Kernel]]:
    """Makes a kernel of a function: its operators and calls are traced into the kernel's text.

    Parameters are annotated with dtypes of ``postlude.lang``: ``Annotated[Tensor, bf16("M", "K")]`` or ``bf16["M", "K"]``
    for an array, with ``f32()`` or ``f32[()]`` for a scalar in memory and with ``f32`` for a number. One result is called
    ``D``; several are annotated with a tuple (and take the names of the variables that are returned), a dict of names, or
    a class of ``typing.NamedTuple``. The other arguments are those of :func:`postlude.compile`.

    >>> from typing import Annotated
    >>> from postlude import kernel
    >>> from postlude.lang import Tensor, f32, relu
    >>> @kernel(math="fast")
    ... def linear_relu(
    ...     A: Annotated[Tensor, f32("M", "K")], W: Annotated[Tensor, f32("N", "K")], alpha: Annotated[Tensor, f32]
    ... ) -> Annotated[Tensor, f32("M", "N")]:
    ...     return relu(alpha * (A @ W.T))
    >>> print(linear_relu)
    kernel linear_relu(A: f32[M, K], W: f32[N, K], alpha: f32) -> D: f32[M, N] {
        D = relu(alpha * (A @ W.T))
    }
    """
    # Annotations that are strings may name variables of the function around the decorated one.
    around = sys._getframe(1).f_locals

    def decorate(function: _Function) -> Kernel:
        if not inspect.isfunction(function):
            refuse(f"`kernel` decorates a function, not {function!r}", "write `@kernel` before `def`")
        text = _text_of(function, around)
        try:
            made: TracedKernel[Any] = TracedKernel(
                text,
                math=math,
                threads=threads,
                outputs=outputs,
                backend=backend,
                name=function.__name__,
                doc=function.__doc__,
            )
        except KernelError as error:
            message = f"{error}\n\n`{function.__name__}` was traced into:\n{text}"
            raise KernelError(message, error.diagnostics) from None
        for attribute in ("__module__", "__qualname__"):
            setattr(made, attribute, getattr(function, attribute))
        made.__wrapped__ = function  # type: ignore[attr-defined]
        return made

    return decorate if function is None else decorate(function)


class _Result(NamedTuple):
    """One output: its name where the annotation or a variable gives one."""

    name: Optional[str]
    type: Any


def _text_of(function: _Function, around: Mapping[str, Any]) -> str:
    """Traces a function into text."""
    name = function.__name__
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        refuse(f"`{name}` is a coroutine or a generator, and a kernel is a plain function", "write `return`")
    scope = _scope(function, around)
    inputs = {
        parameter.name: _declared(f"parameter `{parameter.name}`", _annotation(parameter, scope))
        for parameter in inspect.signature(function).parameters.values()
    }
    results = _annotated_results(name, function, scope)
    given = {one: named(one, str(declared).startswith(("bool", "b1"))) for one, declared in inputs.items()}
    returned, variables = _call(function, given)
    named_results = _named(results, _returned(name, results, returned), variables, inputs)
    own = {value.order for value in given.values()}
    for value in reachable(value for _, _, value in named_results):
        if value.head.startswith("name ") and value.order not in own:
            refuse(
                f"`{name}` reads `{value.head[5:]}` of another kernel, whose values are gone",
                "make it a parameter of this function",
            )
    writer = Writer(inputs, [(one, value) for one, _, value in named_results], variables, _RESERVED)
    return kernel_text(
        name if name.isascii() and name.isidentifier() and name != "kernel" else "traced",
        [f"{one}: {declared}" for one, declared in inputs.items()],
        [f"{one}: {declared}" for one, declared, _ in named_results],
        writer.statements,
        _description(function),
    )


def _description(function: _Function) -> Optional[str]:
    """The first line of the documentation."""
    lines = (inspect.getdoc(function) or "").strip().splitlines()
    return lines[0].strip().removesuffix(".") if lines and lines[0].isprintable() else None


def _call(function: _Function, given: dict[str, Value]) -> tuple[Any, dict[int, str]]:
    """What the function returns, and its variables' names for values by their order."""
    outer = recording.code, recording.frame
    recording.code, recording.frame = function.__code__, None
    try:
        positional, by_name = [], {}
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
                by_name[parameter.name] = given[parameter.name]
            else:
                positional.append(given[parameter.name])
        returned = function(*positional, **by_name)
        found: dict[str, Any] = dict(recording.frame.f_locals) if recording.frame is not None else {}
    finally:
        recording.code, recording.frame = outer
    variables: dict[int, str] = {}
    inputs = {value.order for value in given.values()}
    for name, value in found.items():
        if isinstance(value, Value) and value.order not in inputs and name.isascii() and name.isidentifier():
            variables.setdefault(value.order, name)
    return returned, variables


def _scope(function: _Function, around: Mapping[str, Any]) -> Mapping[str, Any]:
    """The names that an annotation may use."""
    closure = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            closure[name] = cell.cell_contents
        except ValueError:
            # A variable that has no value yet.
            continue
    return ChainMap(closure, dict(around), function.__globals__)


def _evaluated(place: str, annotation: Any, scope: Mapping[str, Any]) -> Any:
    """An annotation, with what a string says in place of the string."""
    for _ in range(2):
        text = getattr(annotation, "__forward_arg__", annotation)
        if not isinstance(text, str):
            break
        try:
            annotation = eval(text, {}, scope)
        except KernelError:
            raise
        except Exception as error:
            missing = getattr(error, "name", None) or ""
            near = get_close_matches(missing, [*_dtypes, "bool_"], 1)
            if missing in _dtypes:
                help = f"write `from postlude.lang import {missing}`"
            elif near:
                help = f"write `{near[0]}`"
            else:
                help = 'write a dtype of `postlude.lang` with dims as strings, such as `bf16["M", "K"]`'
            refuse(f"the annotation {text!r} of {place} cannot be read: {error}", help)
    return annotation


def _annotation(parameter: inspect.Parameter, scope: Mapping[str, Any]) -> Any:
    """A parameter's annotation."""
    place = f"parameter `{parameter.name}`"
    if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
        stars = "*" if parameter.kind is inspect.Parameter.VAR_POSITIONAL else "**"
        refuse(f"{place} takes any number of arguments (`{stars}{parameter.name}`)", "write one parameter for each input")
    if parameter.annotation is inspect.Parameter.empty:
        refuse(f"{place} has no annotation", f'write a type, such as `{parameter.name}: bf16["M", "N"]`')
    if parameter.default is not inspect.Parameter.empty:
        refuse(
            f"{place} has a default, and every input of a kernel is given with the call",
            "leave the default out, or write the number in the function",
        )
    return _evaluated(place, parameter.annotation, scope)


def _type(place: str, annotation: Any) -> Any:
    """What an annotation says of the language: `Annotated` has it behind a type for type checkers."""
    if get_origin(annotation) is not Annotated:
        return annotation
    found = [one for one in annotation.__metadata__ if isinstance(one, (DType, TensorType))]
    if len(found) != 1:
        refuse(
            f"{place} is annotated with {len(found)} types of the language: `{annotation!r}`",
            'write one, such as `Annotated[Tensor, bf16("M", "K")]`',
        )
    return found[0]


def _declared(place: str, annotation: Any) -> str:
    """A type as the language writes it."""
    annotation = _type(place, annotation)
    if isinstance(annotation, DType):
        return annotation.name
    if isinstance(annotation, TensorType):
        dims = [_dim(dim, f"a dim of {place}").text for dim in annotation.dims]
        same = annotation.same
        if same is not None and not (isinstance(same, str) and same.isascii() and same.isidentifier()):
            refuse(f"{place} is the same as {same!r}, which is no name", 'name a parameter before it: `same_as("A")`')
        return f"{annotation.dtype.name}[{', '.join(dims)}]" + (f" = {same}" if same else "")
    shown = getattr(annotation, "__name__", None) or repr(annotation)
    meant = _TYPES.get(shown, 'write a dtype of `postlude.lang` with dims, such as `bf16["M", "K"]`')
    refuse(f"{place} is annotated with `{shown}`, which is not a type of the language", meant)


_TYPES = {
    "Value": 'write its dtype and dims behind it, such as `Annotated[Tensor, bf16("M", "K")]`',
    "float": "write `f32` for a number that the host passes",
    "int": "write `i32` for a number that the host passes",
    "bool": 'write `bool_["M", "N"]` for an array of conditions',
}


def _annotated_results(name: str, function: _Function, scope: Mapping[str, Any]) -> list[_Result]:
    """What the function says that it returns."""
    place = f"the result of `{name}`"
    annotation = inspect.signature(function).return_annotation
    if annotation is inspect.Signature.empty:
        refuse(f"{place} has no annotation", 'write a type, such as `-> bf16["M", "N"]`')
    annotation = _evaluated(place, annotation, scope)
    if get_origin(annotation) is tuple:
        types = get_args(annotation)
        if Ellipsis in types:
            refuse(f"{place} is annotated with a tuple of any length", "write one type for each output")
        found = [_Result(None, one) for one in types if one != ()]
    elif isinstance(annotation, tuple):
        found = [_Result(None, one) for one in annotation]
    elif isinstance(annotation, dict):
        found = [_Result(one, type) for one, type in annotation.items()]
    elif isinstance(annotation, type) and issubclass(annotation, tuple) and hasattr(annotation, "_fields"):
        module = sys.modules.get(annotation.__module__)
        inner = ChainMap(dict(scope), vars(module) if module is not None else {})
        fields = inspect.get_annotations(annotation)
        found = [
            _Result(one, _evaluated(f"field `{one}`", fields.get(one), inner))
            for one in annotation._fields
        ]
    else:
        return [_Result("", annotation)]
    if not found:
        refuse(f"{place} has no outputs", 'write a type, such as `-> bf16["M", "N"]`')
    return found


def _returned(name: str, results: list[_Result], returned: Any) -> list[Value]:
    """The values that were returned, in the order of the annotation."""
    if returned is None:
        refuse(f"`{name}` returns nothing", "return the values of its outputs")
    if results[0].name == "":
        values = [returned]
        if isinstance(returned, (tuple, list, dict)):
            refuse(
                f"`{name}` returns {len(returned)} values and is annotated with one",
                'write `-> tuple[bf16["M", "N"], f32["N"]]` with one type for each',
            )
    elif isinstance(returned, Mapping):
        names = [one.name for one in results]
        if set(returned) != set(names):
            refuse(
                f"`{name}` returns {', '.join(map(repr, returned))} and is annotated with "
                f"{', '.join(f'output {place + 1}' if one is None else repr(one) for place, one in enumerate(names))}",
                "return the names of the annotation",
            )
        values = [returned[one] for one in names]
    else:
        values = list(returned) if isinstance(returned, (tuple, list)) else [returned]
        if len(values) != len(results):
            refuse(f"`{name}` is annotated with {len(results)} outputs, and returns {len(values)}")
    for place, (result, value) in enumerate(zip(results, values)):
        if not isinstance(value, Value):
            shown = f"output `{result.name}`" if result.name else f"output {place + 1}" if len(results) > 1 else "the result"
            refuse(
                f"{shown} of `{name}` is {value!r} of the type `{type(value).__name__}`, which is not a traced value",
                "return what the kernel computes from its inputs",
            )
    return values


def _named(
    results: list[_Result], values: list[Value], variables: dict[int, str], inputs: Mapping[str, str]
) -> list[tuple[str, str, Value]]:
    """The outputs, each with a name, a type and a value."""
    names: list[Optional[str]] = []
    for result, value in zip(results, values):
        name = variables.get(value.order) if result.name is None else result.name or None
        own = result.name is None and (name in _RESERVED or name in inputs or name in names)
        names.append(None if own else name)
    taken = {*inputs, *(name for name in names if name is not None)}
    found = []
    for result, value, given in zip(results, values, names):
        name = given if given is not None else used_name("D", taken)
        taken.add(name)
        declared = _type(f"output `{name}`", result.type)
        if isinstance(declared, DType):
            refuse(
                f"output `{name}` is annotated with `{declared}`, and outputs lie in memory",
                f"write `{declared}[()]` or `{declared}()` for a scalar in memory",
            )
        found.append((name, _declared(f"output `{name}`", result.type), value))
    return found
