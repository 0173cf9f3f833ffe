"""Exceptions that carry Postlude's diagnostics."""

from __future__ import annotations

from typing import NamedTuple, Optional, Sequence


class Diagnostic(NamedTuple):
    """One mistake: what is wrong, where in the kernel's text, and what to do about it."""

    message: str
    line: Optional[int] = None
    column: Optional[int] = None
    help: Optional[str] = None
    length: int = 1

    def render(self, text: str) -> str:
        """The diagnostic as it is shown, with the line that it is about."""
        lines = [self.message]
        if self.line is not None and self.column is not None:
            source = text.splitlines()
            shown = source[self.line - 1] if self.line <= len(source) else ""
            gutter = " " * len(str(self.line))
            mark = " " * (self.column - 1) + "^" * max(self.length, 1)
            lines += [f"{gutter} |", f"{self.line} | {shown}", f"{gutter} | {mark}"]
        if self.help is not None:
            lines.append(f"help: {self.help}")
        return "\n".join(lines)


class Error(Exception):
    """What went wrong, in the user's words.

    ``line``, ``column`` and ``help`` are those of the first diagnostic; ``diagnostics`` has all of them.

    >>> import postlude
    >>> try:
    ...     postlude.compile("kernel k(A: f32[M, K], B: f32[K, N]) -> D: f32[M, N] { D = relu(A @ C) }")
    ... except postlude.KernelError as error:
    ...     print(error.line, error.column, error.help)
    1 69 declare it in the signature, or assign it before
    """

    diagnostics: tuple[Diagnostic, ...]

    def __init__(self, message: str = "", diagnostics: tuple[Diagnostic, ...] = ()) -> None:
        super().__init__(message)
        self.diagnostics = diagnostics

    @property
    def line(self) -> Optional[int]:
        """The line of the kernel's text, from 1."""
        return self.diagnostics[0].line if self.diagnostics else None

    @property
    def column(self) -> Optional[int]:
        """The character of that line, from 1."""
        return self.diagnostics[0].column if self.diagnostics else None

    @property
    def help(self) -> Optional[str]:
        """What to do about it, where that is known."""
        return self.diagnostics[0].help if self.diagnostics else None


class KernelError(Error):
    """A kernel's text or function is wrong."""


class CallError(Error, ValueError):
    """The arguments of a call do not fit the kernel or one another."""


class RefusedError(Error):
    """A good kernel that a device does not run; the message says why."""


class InternalError(Error):
    """A mistake of Postlude's own. Please report it."""


class Finding(NamedTuple):
    """Something that the simulator found wrong, and where."""

    #: What it is, in a few words.
    diagnosis: str
    #: The rest in words; may be empty.
    message: str
    #: The line of the PTX, from 1, and the instruction there; 0 for the program as a whole.
    line: int
    instruction: str
    #: The CTA in the grid, and the warp in the CTA where one is to blame.
    cta: int
    warp: Optional[int]
    #: The region of shared memory and the address, where there are any.
    region: Optional[str]
    address: Optional[int]
    #: All of it, as it is shown.
    text: str


class FindingsError(InternalError):
    """The simulator found something wrong with a call: ``findings`` has all of it, ``text`` the whole of it in words."""

    findings: tuple[Finding, ...] = ()

    @property
    def text(self) -> str:
        """Every finding, as it is shown."""
        return "\n".join(one.text for one in self.findings)


_KINDS = {kind.__name__: kind for kind in (KernelError, CallError, RefusedError, InternalError, FindingsError)}


def make(
    kind: str, text: str, fields: list[dict[str, object]], findings: Sequence[dict[str, object]] = ()
) -> Error:
    """The exception of a kind, with its diagnostics rendered; called by the native half."""
    diagnostics = tuple(Diagnostic(**one) for one in fields)  # type: ignore[arg-type]
    message = "\n\n".join(one.render(text) for one in diagnostics)
    made = _KINDS[kind](message, diagnostics)
    if isinstance(made, FindingsError):
        made.findings = tuple(Finding(**one) for one in findings)  # type: ignore[arg-type]
    return made
