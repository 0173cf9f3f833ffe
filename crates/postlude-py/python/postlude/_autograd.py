"""Differentiable operators: a forward and a backward pass, bound by the names of their tensors.

In: kernels (and, in a backward pass, Python functions) that read and give tensors by name. Out: a callable that PyTorch
differentiates. Invariant: every name that a backward step reads is known to be there when the operator is made.
"""

from __future__ import annotations

import hashlib
import inspect
import re
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Optional, Sequence, Union

from ._errors import Diagnostic, KernelError
from ._kernel import Kernel, compile
from ._outputs import result_type, type_name

#: What a step is made of: a kernel or its text; with names of its own for the kernel's; a function, named after its
#: result; a function with the names of its results.
StepLike = Union[
    Kernel,
    str,
    Callable[..., Any],
    tuple[Union[Kernel, str], Mapping[str, str]],
    tuple[Callable[..., Any], Sequence[str]],
]


class Step(NamedTuple):
    """One step of a pass: what it runs, the names that it reads, in order, and the names that it gives."""

    run: Callable[..., Any]
    reads: tuple[str, ...]
    gives: tuple[str, ...]

    def __call__(self, known: dict[str, Any]) -> None:
        """Runs the step on what is known by name, and adds its results."""
        results = self.run(*[known[name] for name in self.reads])
        if len(self.gives) == 1:
            known[self.gives[0]] = results
            return
        for name, result in zip(self.gives, results):
            known[name] = result


def _wrong(message: str, help: str) -> KernelError:
    diagnostic = Diagnostic(message, help=help)
    return KernelError(diagnostic.render(""), (diagnostic,))


_TOKEN = re.compile(r"#[^\n]*|[A-Za-z_]\w*|\d[\w.]*|[<>=!]=|<<|>>|\S|\n")


def _one_liner_outputs(text: str) -> tuple[str, ...]:
    """The outputs of a text without a signature: assigned names that nothing reads or that start with a capital."""
    tokens = [token for token in _TOKEN.findall(text) if not token.startswith("#")]
    assigned: dict[str, list[int]] = {}
    depth = 0
    for place, token in enumerate(tokens):
        depth += token in ("(", "[", "{")
        depth -= token in (")", "]", "}")
        if token != "=" or depth:
            continue
        at = place - 1
        targets = []
        while at >= 0 and tokens[at].isidentifier():
            targets.append(at)
            if at == 0 or tokens[at - 1] != ",":
                break
            at -= 2
        for target in reversed(targets):
            assigned.setdefault(tokens[target], []).append(target)

    def is_read(name: str) -> bool:
        return any(token == name and place not in assigned[name] for place, token in enumerate(tokens))

    return tuple(name for name in assigned if name[0].isupper() or not is_read(name))


def _outputs_of(kernel: Kernel) -> tuple[str, ...]:
    if kernel.outputs:
        return kernel.outputs
    keep = kernel._options.keep
    return tuple(name for name in _one_liner_outputs(kernel.text) if keep is None or name in keep)


def _step(what: StepLike) -> Step:
    names: Any = None
    if isinstance(what, tuple):
        what, names = what
    if isinstance(what, str):
        what = compile(what)
    if isinstance(what, Kernel):
        renamed: Mapping[str, str] = names or {}
        inputs, outputs = what.inputs, _outputs_of(what)
        for name in renamed:
            if name not in inputs and name not in outputs:
                raise _wrong(
                    f"the kernel {what.__name__!r} has no `{name}`", f"it has {', '.join((*inputs, *outputs))}"
                )
        of = [tuple(renamed.get(name, name) for name in side) for side in (inputs, outputs)]
        return Step(what, of[0], of[1])
    if not callable(what):
        raise TypeError(f"a step is a kernel, its text or a function, not {type(what).__name__}")
    parameters = tuple(inspect.signature(what).parameters)
    gives = (what.__name__,) if names is None else tuple(names)
    for name in gives:
        if not name.isidentifier():
            raise _wrong(
                f"a function named {name!r} does not say what it gives",
                "name it after its result, or write (function, ['dZ'])",
            )
    return Step(what, parameters, gives)


def _steps(steps: Union[StepLike, Sequence[StepLike]]) -> list[Step]:
    single = isinstance(steps, (str, Kernel)) or callable(steps)
    if isinstance(steps, tuple) and len(steps) == 2 and isinstance(steps[1], (dict, list)):
        single = True
    if single:
        return [_step(steps)]  # type: ignore[arg-type]
    return [_step(one) for one in steps]  # type: ignore[union-attr, arg-type]


def _needed(steps: Sequence[Step], names: Iterable[str]) -> list[Step]:
    """The steps that these names follow from."""
    wanted = set(names)
    kept = []
    for step in reversed(steps):
        if wanted.intersection(step.gives):
            kept.append(step)
            wanted.update(step.reads)
    return kept[::-1]


def _lean(steps: Sequence[Step], results: Sequence[str]) -> tuple[Step, ...]:
    """The forward pass without what only a backward pass reads."""
    wanted = set(results)
    lean = []
    for step in reversed(_needed(steps, results)):
        kernel = step.run
        assert isinstance(kernel, Kernel)
        own = [name for name, given in zip(_outputs_of(kernel), step.gives) if given in wanted]
        gives = tuple(given for given in step.gives if given in wanted)
        if gives != step.gives:
            options = kernel._options
            kernel = Kernel(
                kernel.text,
                math=options.math,
                threads=options.threads,
                outputs=own,
                backend=options.backend,
                name=kernel.__name__,
            )
        lean.append(Step(kernel, step.reads, gives))
        wanted.update(step.reads)
    return tuple(lean[::-1])


class Differentiable:
    """A function of tensors with a derivative of its own; :func:`autograd` makes one.

    It is called as a kernel is, with arguments in order or by name. Where no gradient is wanted, the forward kernels
    run alone and do not write what only the backward pass reads. Autocast changes nothing: arguments are used as they are.
    """

    #: The names of the inputs, in order.
    inputs: tuple[str, ...]
    #: The names of the results, in order.
    outputs: tuple[str, ...]
    #: Inputs that a gradient comes back for.
    differentiable: tuple[str, ...]

    def __init__(
        self,
        forward: list[Step],
        backward: list[Step],
        saved: Sequence[str],
        outputs: Optional[Sequence[str]],
        name: Optional[str],
    ) -> None:
        self._forward, self._backward = tuple(forward), tuple(backward)
        self.inputs, given = _check_forward(forward)
        if outputs is None:
            outputs = [one for one in forward[-1].gives if one not in saved] or list(forward[-1].gives)
        self.outputs = tuple(outputs)
        for one in self.outputs:
            if one not in given:
                raise _wrong(f"no forward step gives `{one}`", f"the forward pass gives {', '.join(given)}")
        for one in saved:
            if one not in given and one not in self.inputs:
                raise _wrong(
                    f"`{one}` is saved, but the forward pass does not know it",
                    f"it knows {', '.join((*self.inputs, *given))}",
                )
        self.differentiable = _check_backward(self, backward, given, saved)
        read = {name for step in backward for name in step.reads}
        #: Names that are kept for the backward pass.
        self.saved = tuple(one for one in dict.fromkeys(saved) if one in read)
        #: What the operator gives beside the results.
        self._extras = tuple(one for one in self.saved if one in given and one not in self.outputs)
        self._lean = _lean(forward, self.outputs)
        self.__name__ = name or "_".join(self.outputs)
        result_type(self.outputs)
        self._result_type = type_name(self.outputs)
        self._key = _register(self)

    def __repr__(self) -> str:
        return f"<postlude.autograd {self.__name__}({', '.join(self.inputs)}) -> {', '.join(self.outputs)}>"

    def __call__(self, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        from . import _differentiable

        return _differentiable.call(self, args, kwargs, out)


def _check_forward(forward: Sequence[Step]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The free names of the forward pass, and what it gives."""
    if not forward:
        raise _wrong("the forward pass has no step", "give a kernel")
    inputs: dict[str, None] = {}
    given: dict[str, None] = {}
    for step in forward:
        if not isinstance(step.run, Kernel):
            raise _wrong("a forward step is a Python function", "write it as a kernel, or apply it outside")
        for name in step.reads:
            if name not in given:
                inputs[name] = None
        for name in step.gives:
            if name in given or name in inputs:
                raise _wrong(f"`{name}` has two meanings in the forward pass", "rename one: (kernel, {'D': 'H'})")
            given[name] = None
    return tuple(inputs), tuple(given)


def _check_backward(
    operator: Differentiable, backward: Sequence[Step], given: Sequence[str], saved: Sequence[str]
) -> tuple[str, ...]:
    """The inputs that the backward pass has a gradient for."""
    gradients = {f"d{name}" for name in operator.outputs}
    known = {*saved, *gradients}
    for step in backward:
        for name in step.reads:
            if name in known:
                continue
            if name in given or name in operator.inputs:
                raise _wrong(f"the backward pass reads `{name}`, which is not saved", f"add it: saved=[..., {name!r}]")
            raise _wrong(
                f"the backward pass reads `{name}`, which no step before gives",
                f"it can read {', '.join(sorted(known))}",
            )
        for name in step.gives:
            if name in known:
                raise _wrong(f"`{name}` has two meanings in the backward pass", "rename one: (kernel, {'D': 'G'})")
        known.update(step.gives)
    wanted = {f"d{name}": name for name in operator.inputs}
    live = _needed(backward, wanted)
    for step in backward:
        if step not in live:
            raise _wrong(
                f"nothing uses `{step.gives[0]}` of the backward pass",
                f"gradients of the inputs are called {', '.join(wanted)}",
            )
    made = {name for step in backward for name in step.gives}
    found = tuple(name for gradient, name in wanted.items() if gradient in made)
    if not found:
        raise _wrong("the backward pass has no gradient", f"gradients of the inputs are called {', '.join(wanted)}")
    return found


#: Operators by their keys, for as long as the process lives: PyTorch keeps what is registered.
bound: dict[str, Differentiable] = {}


def _made_of(step: Step) -> tuple[object, ...]:
    if isinstance(step.run, Kernel):
        return (step.run._key.partition("#")[0], step.reads, step.gives)
    code = getattr(step.run, "__code__", None)
    told = (code.co_code, code.co_consts, code.co_names) if code else type(step.run).__qualname__
    return (step.run.__module__, repr(told), step.reads, step.gives)


def _register(operator: Differentiable) -> str:
    steps = [[_made_of(step) for step in steps] for steps in (operator._forward, operator._backward)]
    # Code objects print their address: only what is stable belongs into a name.
    told = re.sub(r" at 0x[0-9a-f]+", "", repr((steps, operator.saved, operator.outputs)))
    digest = hashlib.sha256(told.encode()).hexdigest()[:16]
    key = base = f"{re.sub(r'[^0-9A-Za-z_]', '_', operator.__name__)}_{digest}"
    # Functions may differ in what they close over.
    copies = 0
    while bound.setdefault(key, operator) is not operator:
        copies += 1
        key = f"{base}_{copies}"
    return key


def _derived(kernel: Kernel, wrt: Sequence[str], name: Optional[str]) -> Differentiable:
    """A kernel with the backward pass that is derived from it."""
    derived = kernel.grad(*wrt)
    renamed = {cotangent: f"d{output}" for output, cotangent in derived.cotangents.items()}
    renamed.update({gradient: f"d{one}" for one, gradient in derived.gradients.items()})
    saved = [one for one in derived.backward.inputs if one not in renamed]
    steps = _steps(derived.forward), [_step((derived.backward, renamed))]
    return Differentiable(*steps, saved, kernel.outputs, name or kernel.__name__)


def autograd(
    forward: Union[StepLike, Sequence[StepLike]],
    backward: Union[StepLike, Sequence[StepLike], None] = None,
    saved: Sequence[str] = (),
    *,
    wrt: Sequence[str] = (),
    outputs: Optional[Sequence[str]] = None,
    name: Optional[str] = None,
) -> Differentiable:
    """Binds a forward and a backward pass into a differentiable operator of PyTorch.

    Without a backward pass it is derived: ``forward`` is one kernel with a signature, ``wrt`` names the inputs that
    have a gradient (all tensors of floats where it names none), and products that the backward pass needs are saved.

    Names are the interface. ``forward`` is a kernel or several; its inputs are the names that no step before gives. The
    results are ``outputs``, or what the last step gives and ``saved`` does not name. ``saved`` names the inputs and
    outputs that are kept for the backward pass, which reads them and ``dD`` for a result ``D``, and gives ``dA`` for an
    input ``A``. Backward steps may also be Python functions of tensors: the parameters are the names that one reads,
    and its own name is what it gives. ``(kernel, {"A": "dY"})`` renames a kernel's inputs and outputs, and
    ``(function, ["dW", "db"])`` names what a function gives.

    An input without a gradient must not require one. The result is differentiated once: there is no double backward.

    >>> import torch, postlude
    >>> def G(dD, D):
    ...     return dD * (D > 0)
    >>> linear_relu = postlude.autograd(
    ...     "D = relu(A @ W.T)", [G, "dA = G @ W", "dW = G.T @ A"], saved=["A", "W", "D"]
    ... )
    >>> A, W = torch.ones(2, 3), torch.ones(4, 3, requires_grad=True)
    >>> linear_relu(A, W).sum().backward()
    >>> W.grad[0]
    tensor([2., 2., 2.])
    """
    if backward is None:
        kernel = compile(forward) if isinstance(forward, str) else forward
        if not isinstance(kernel, Kernel):
            raise _wrong("only one kernel is differentiated", "write one kernel, or give a backward pass")
        return _derived(kernel, wrt, name)
    return Differentiable(_steps(forward), _steps(backward), list(saved), outputs, name)
