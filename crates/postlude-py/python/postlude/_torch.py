"""PyTorch: every kernel as an operator that ``torch.compile``, fake tensors and autograd understand.

In: a kernel and the arguments of a call. Out: the call of an operator in the namespace ``postlude``, made at first use.
A plain eager call without gradients does not come here: it runs the kernel directly, which costs less.

Invariant: an operator's name follows from the kernel's text, its options and, for a one-liner, the dtypes and ranks of its
arguments. The same call has the same operator in every process.
"""

from __future__ import annotations

import hashlib
import re
from threading import RLock
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional, Sequence, Union

import torch
from torch import Tensor
from torch.autograd import forward_ad

from . import _native, _outputs
from ._errors import CallError, Diagnostic, InternalError
from ._forked import free_in_children

if TYPE_CHECKING:
    from ._kernel import Kernel

#: What an argument is, as far as typing is concerned: dtype and rank of a tensor, or "int" or "float" for a number.
Kind = Union[tuple[torch.dtype, int], str]
Kinds = tuple[Kind, ...]
Dims = list[str]

_lock = RLock()
free_in_children(_lock)
compiling = torch.compiler.is_dynamo_compiling
_transform = torch._C._functorch.peek_interpreter_stack
_grad_enabled = torch.is_grad_enabled


def transforms() -> bool:
    """Whether a transform of ``torch.func`` is at work."""
    return _transform() is not None


def refuse_transforms(name: str, values: Sequence[Any]) -> None:
    """Transforms that would lose a derivative are refused; ``torch.vmap`` is by the operator."""
    dual = forward_ad._current_level >= 0
    for value in values:
        if not isinstance(value, Tensor):
            continue
        if torch._C._functorch.is_gradtrackingtensor(value):
            raise wrong(
                f"{name!r} does not take part in torch.func.grad, vjp, jvp and what is made of them",
                "use loss.backward() or torch.autograd.grad",
            )
        if dual and forward_ad.unpack_dual(value).tangent is not None:
            raise wrong(f"{name!r} has no forward-mode derivative", "use loss.backward() or torch.autograd.grad")


def has_tensor(args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Whether an argument is a tensor."""
    for value in args:
        if isinstance(value, Tensor) or _is_list(value):
            return True
    for value in kwargs.values():
        if isinstance(value, Tensor) or _is_list(value):
            return True
    return False


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) > 0 and isinstance(value[0], Tensor)


def stacked(values: Sequence[Any]) -> Sequence[Any]:
    """Lists of tensors as one tensor each: operators take tensors alone."""
    if not any([_is_list(value) for value in values]):
        return values
    return [torch.stack(list(value)) if _is_list(value) else value for value in values]


def call(kernel: Kernel, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> Any:
    """Calls the kernel's operator."""
    if compiling():
        return _call_traced(kernel._key, args, kwargs, out)
    names = kernel._plans.get("inputs") or kernel._plans.setdefault("inputs", kernel.inputs)
    values = stacked(args if len(args) == len(names) and not kwargs else assign(names, args, kwargs))
    if forward_ad._current_level >= 0 or _transform() is not None:
        refuse_transforms(kernel.__name__, values)
    kinds = tuple([(one.dtype, one.dim()) if isinstance(one, Tensor) else _kind(one) for one in values])
    plan = kernel._plans.get(kinds)
    if plan is None:
        plan = kernel._plans[kinds] = _plan(_operator(kernel._key, kinds))
    if out is None:
        result = plan.functional(*values)
        return result if plan.named is None else plan.named(*result)
    outputs = _given_outputs(plan.outputs, values, out)
    plan.into(*values, *outputs)
    return outputs[0] if plan.named is None else plan.named(*outputs)


def _call_traced(key: str, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> Any:
    """The call as ``torch.compile`` traces it."""
    values = stacked(assign(_input_names(key), args, kwargs))
    kinds = tuple([_kind(value) for value in values])
    if out is not None:
        outputs = _given_outputs(_output_names(key, kinds), values, out)
        getattr(torch.ops.postlude, _functional(key, kinds) + "_out").default(*values, *outputs)
        return outputs[0] if len(outputs) == 1 else getattr(_outputs, _result_type(key, kinds))(*outputs)
    # Names are constants that a compiler can hold; operators and types are looked up under them.
    result = getattr(torch.ops.postlude, _functional(key, kinds)).default(*values)
    return result if isinstance(result, Tensor) else getattr(_outputs, _result_type(key, kinds))(*result)


def _given_outputs(names: Sequence[str], values: Sequence[Any], out: Any) -> list[Any]:
    """What ``out`` names, in order: one tensor, a sequence, or a dictionary."""
    if isinstance(out, dict):
        outputs = [out[name] for name in names if name in out]
        if len(out) != len(names):
            outputs = []
    elif isinstance(out, (tuple, list)):
        outputs = list(out)
    else:
        outputs = [out]
    if any([_is_list(one) for one in outputs]) or len(names) == 1 < len(outputs):
        raise wrong(
            "`out=` has a list of tensors, but this call needs an operator, which writes single tensors",
            "give one tensor, whose parts are the batches: `out.unbind()`",
        )
    if len(outputs) != len(names):
        raise CallError(f"`out` does not have the kernel's outputs: give {', '.join(names)}")
    if _grad_enabled():
        for value in [*values, *outputs]:
            if isinstance(value, Tensor) and value.requires_grad:
                raise wrong(
                    "`out=` is given, but a tensor of the call requires a gradient, which cannot be recorded",
                    "call without `out=`, or under torch.no_grad()",
                )
    return outputs


def assign(names: Sequence[str], args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """The arguments in the order of the names."""
    if len(args) > len(names):
        raise TypeError(f"{len(names)} arguments are taken ({', '.join(names)}), {len(args)} are given")
    for name in kwargs:
        if name not in names:
            raise TypeError(f"there is no input {name!r}; the inputs are {', '.join(names)}")
        if name in names[: len(args)]:
            raise TypeError(f"{name!r} is given twice")
    values = list(args)
    for name in names[len(args) :]:
        if name not in kwargs:
            raise TypeError(f"missing {name}; the arguments are {', '.join(names)}")
        values.append(kwargs[name])
    return values


def _kind(value: Any) -> Kind:
    if isinstance(value, Tensor):
        return (value.dtype, value.dim())
    if isinstance(value, (int, torch.SymInt)):
        return "int"
    if isinstance(value, (float, torch.SymFloat)):
        return "float"
    raise TypeError(
        f"a call with tensors of PyTorch that needs an operator also has a {type(value).__name__}\n"
        "help: give tensors and plain numbers alone"
    )


class Operator(NamedTuple):
    """A kernel's operators, ``name`` and ``name_out``, and what their results are called."""

    name: str
    outputs: tuple[str, ...]


class Plan(NamedTuple):
    """What an eager call needs of an operator."""

    functional: Any
    into: Any
    outputs: tuple[str, ...]
    #: The named tuple of several outputs.
    named: Any


def _plan(made: Operator) -> Plan:
    functional, into = (getattr(torch.ops.postlude, name).default for name in (made.name, f"{made.name}_out"))
    named = None if len(made.outputs) == 1 else _outputs.result_type(made.outputs)
    return Plan(functional, into, made.outputs, named)


_operators: dict[tuple[str, Kinds], Operator] = {}
_by_name: dict[str, Operator] = {}


def _operator(key: str, kinds: Kinds) -> Operator:
    with _lock:
        found = _operators.get((key, kinds))
        if found is None:
            from ._kernel import known

            found = _operators[key, kinds] = _make(known[key], kinds)
        return found


def constant(function: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a function whose result follows from its constant arguments: ``torch.compile`` calls it while it traces."""
    # What torch.compiler.assume_constant_result sets; calling that one imports the whole compiler.
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


@constant
def _input_names(key: str) -> tuple[str, ...]:
    from ._kernel import known

    return known[key].inputs


@constant
def _functional(key: str, kinds: Kinds) -> str:
    return _operator(key, kinds).name


@constant
def _output_names(key: str, kinds: Kinds) -> tuple[str, ...]:
    return _operator(key, kinds).outputs


@constant
def _result_type(key: str, kinds: Kinds) -> str:
    outputs = _operator(key, kinds).outputs
    _outputs.result_type(outputs)
    return _outputs.type_name(outputs)


class Signature(NamedTuple):
    """What a typed kernel declares: name, dtype and dims of its inputs and outputs; no dims for a number."""

    inputs: list[tuple[str, str, Optional[Dims]]]
    outputs: list[tuple[str, str, Dims]]
    #: Other dims of inputs: the place of an input, and what the kernel calls its dims as well.
    same: list[tuple[int, Dims]]


def _typed(kernel: Kernel, kinds: Kinds) -> tuple[Signature, str]:
    """The signature for these kinds of arguments, and what the operator's name follows from beside the kernel."""
    native, told = kernel._native, ""
    if native.signature is None:
        for name, kind in zip(kernel.inputs, kinds):
            if not isinstance(kind, str) and _dtype_name(kind[0]) not in _TAKEN:
                raise wrong(f"`{name}` is {_dtype_name(kind[0])}", f"convert it to one of {', '.join(_TAKEN)}")
        told = native.typed_text([_shaped(kind) for kind in kinds])
        native = _native.Kernel(told, **kernel._options._asdict())
    declared = native.signature
    if declared is None:
        raise InternalError("a typed kernel has no signature")
    kept = set(native.outputs)
    outputs = [(name, dtype, dims or []) for name, dtype, dims in declared[2] if name in kept]
    return Signature(declared[1], outputs, native.second_dims), told


def _make(kernel: Kernel, kinds: Kinds) -> Operator:
    signature, told = _typed(kernel, kinds)
    for (name, dtype, dims), kind in zip(signature.inputs, kinds):
        _check_kind(name, dtype, dims, kind)
    made_of = kernel._key.partition("#")[0]
    digest = hashlib.sha256(f"{made_of}\0{told}".encode()).hexdigest()[:16]
    name = f"{identifier(kernel.__name__)}_{digest}"
    if name in _by_name:
        return _by_name[name]
    native = kernel._native
    inputs = [argument(name, "Tensor" if dims is not None else dtype) for name, dtype, dims in signature.inputs]
    results = ", ".join(["Tensor"] * len(signature.outputs))
    schema = f"({', '.join(inputs)}) -> ({results})"
    outputs = [f"Tensor(a{place}!) out_{one[0]}" for place, one in enumerate(signature.outputs)]
    schema_into = f"({', '.join([*inputs, *outputs])}) -> ()"
    count = len(inputs)

    def run(*values: Any) -> Any:
        return native(*values)

    def run_into(*values: Any) -> None:
        native(*values[:count], out=values[count:])

    def fake(*values: Any) -> Any:
        return _fake(native, signature, values)

    def fake_into(*values: Any) -> None:
        _fake(native, signature, values[:count])

    # Nothing but numbers and tensors reaches an operator, all by position.
    functional = torch.library.custom_op(f"postlude::{name}", run, mutates_args=(), schema=schema)
    functional.register_fake(fake)
    functional.register_vmap(refuse_vmap(kernel.__name__))
    functional.register_autograd(_refuse_backward(kernel.__name__))
    written = [f"out_{one[0]}" for one in signature.outputs]
    into = torch.library.custom_op(f"postlude::{name}_out", run_into, mutates_args=written, schema=schema_into)
    into.register_fake(fake_into)
    into.register_vmap(refuse_vmap(kernel.__name__))
    made = Operator(name, tuple(one[0] for one in signature.outputs))
    return _by_name.setdefault(name, made)


def identifier(name: str) -> str:
    """A name that an operator can have."""
    return re.sub(r"\W", "_", name, flags=re.ASCII)


_SCHEMA_WORDS = {"Tensor", "Scalar", "ScalarType", "Generator", "Device", "int", "float", "bool", "str", "SymInt", "None"}


def argument(name: str, kind: str) -> str:
    """An argument of a schema."""
    written = name + "_" if name in _SCHEMA_WORDS else name
    return f"{'Tensor' if kind == 'Tensor' else 'float' if kind in ('f32', 'float') else 'SymInt'} {written}"


def _check_kind(name: str, dtype: str, dims: Optional[Dims], kind: Kind) -> None:
    if dims is not None and isinstance(kind, str):
        raise TypeError(f"`{name}` is a number; the kernel takes an array of {dtype}[{', '.join(dims)}]")
    if dims is None and not isinstance(kind, str):
        raise TypeError(
            f"`{name}` is a tensor; the kernel takes a number\n"
            f"help: give a Python number, or declare `{name}: {dtype}[]` to read it from memory"
        )
    if dims is None and dtype == "i32" and kind == "float":
        raise TypeError(f"`{name}` is a float; the kernel takes an integer")


def _shaped(kind: Kind) -> tuple[str, Optional[list[int]]]:
    """A kind of argument as the native half knows it; every size is 1."""
    if isinstance(kind, str):
        return ("int32" if kind == "int" else "float32", None)
    return (_dtype_name(kind[0]), [1] * kind[1])


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _fake(native: Any, signature: Signature, values: Sequence[Any]) -> Any:
    """Outputs without elements, of the right shapes and dtypes."""
    like = next(value for value in values if isinstance(value, Tensor))
    shapes: list[Any] = [
        (_dtype_name(value.dtype), list(value.shape)) if isinstance(value, Tensor) else _shaped(_kind(value))
        for value in values
    ]
    for (name, _, dims), value in zip(signature.inputs, values):
        if dims is not None and value.device != like.device:
            raise wrong(
                f"`{name}` is on {value.device}, another tensor on {like.device}",
                "bring all tensors of a call to one device",
            )
    symbolic = any(isinstance(size, torch.SymInt) for _, shape in shapes for size in shape or ())
    inferred = _symbolic(signature, shapes) if symbolic else [(*one[1:],) for one in native.infer(shapes)]
    made = [like.new_empty(shape, dtype=getattr(torch, dtype)) for shape, dtype in inferred]
    return made[0] if len(made) == 1 else tuple(made)


_DTYPES = {
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "f8e4m3": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2",
    "f8e8m0": "float8_e8m0fnu",
    "i8": "int8",
    "u8": "uint8",
    "i32": "int32",
    "bool": "bool",
    "b1": "uint8",
    "i4": "uint8",
    "u4": "uint8",
}
#: Dtypes of arguments: also int64, which `i32` takes where it is an index, an end or a count, or compared.
_TAKEN = list(dict.fromkeys([*_DTYPES.values(), "int64"]))
#: Elements of the last dim that a byte holds.
_PER_BYTE = {"b1": 8, "i4": 2, "u4": 2}


def _symbolic(signature: Signature, shapes: list[Any]) -> list[tuple[list[Any], str]]:
    """Shapes of outputs where sizes are not known yet: dims are bound to what ``torch.compile`` calls them."""
    sizes: dict[str, Any] = {}
    bound: list[tuple[str, str, int, Any]] = []
    same = [(*signature.inputs[place][:2], dims, shapes[place]) for place, dims in signature.same]
    declared = [(*one, shape) for one, shape in zip(signature.inputs, shapes)]
    for name, dtype, dims, shape in [*declared, *same]:
        if dims is None:
            continue
        given = list(shape[1])
        # The call itself refuses int64 that is computed with.
        if shape[0] != _DTYPES[dtype] and (dtype, shape[0]) != ("i32", "int64"):
            raise wrong(f"`{name}` is {shape[0]}, the kernel takes {dtype}", "convert it")
        if len(given) != len(dims):
            raise wrong(f"`{name}` has {len(given)} dims, the kernel takes [{', '.join(dims)}]", "reshape it")
        if dtype in _PER_BYTE and given:
            given[-1] = given[-1] * _PER_BYTE[dtype]
        for dim, size in zip(dims, given):
            base, divisor = _parts(dim)
            if divisor == 1 and base not in sizes and not base.isdigit():
                sizes[base] = size
            else:
                bound.append((name, base, divisor, size))
    for name, base, divisor, size in bound:
        # A name is known whole before what is divided is looked at; the first one that is divided stands for the rest.
        expected = int(base) if base.isdigit() else sizes.setdefault(base, size * divisor)
        torch._check(expected == size * divisor, lambda: f"sizes of {base} disagree, in `{name}` and before it")

    def size_of(output: str, dim: str) -> Any:
        base, divisor = _parts(dim)
        if base.isdigit():
            return int(base)
        if base not in sizes:
            raise InternalError(f"no input has the dim {base} of `{output}`")
        if divisor != 1:
            torch._check(sizes[base] % divisor == 0, lambda: f"{base} is not a multiple of {divisor}")
        return sizes[base] // divisor

    inferred = []
    for name, dtype, dims in signature.outputs:
        shape = [size_of(name, dim) for dim in dims]
        if dtype in _PER_BYTE and shape:
            shape[-1] = shape[-1] // _PER_BYTE[dtype]
        inferred.append((shape, _DTYPES[dtype]))
    return inferred


def _parts(dim: str) -> tuple[str, int]:
    base, _, divisor = dim.partition("/")
    return base, int(divisor or 1)


def wrong(message: str, help: str) -> CallError:
    """An error with a cure."""
    diagnostic = Diagnostic(message, help=help)
    return CallError(diagnostic.render(""), (diagnostic,))


def _refuse_backward(name: str) -> Callable[..., Any]:
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise wrong(
            f"the kernel {name!r} has no backward pass",
            "bind one with postlude.autograd(forward, backward, saved=[...]), take a function of postlude.torch, "
            "or call the kernel under torch.no_grad()",
        )

    return backward


def refuse_vmap(name: str) -> Callable[..., Any]:
    """A batching rule that says what to do instead."""

    def rule(info: Any, in_dims: Any, *args: Any) -> Any:
        raise wrong(
            f"{name!r} cannot be mapped by torch.vmap: a kernel's batch is part of its text",
            "give its operands a leading batch dim (`A: bf16[L, M, K]`) and call it once",
        )

    return rule
