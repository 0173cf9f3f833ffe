"""Annotations of inputs and outputs that type checkers accept too."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from postlude import KernelError, kernel, lang
from postlude.lang import f32


def test_annotations_may_be_those_that_type_checkers_accept() -> None:
    Matrix = Annotated[lang.Tensor, f32("M", "K")]

    @kernel
    def checked(
        A: Matrix, W: Annotated[lang.Tensor, "a note", f32("N", "K")], s: Annotated[lang.Tensor, f32]
    ) -> tuple[Annotated[lang.Tensor, f32("M", "N")], Annotated[lang.Tensor, f32()]]:
        D = s * (A @ W.T)
        return D, lang.absmax(D)

    @kernel
    def short(A: f32["M", "K"], W: f32["N", "K"], s: f32) -> tuple[f32["M", "N"], f32[()]]:
        D = s * (A @ W.T)
        return D, lang.absmax(D)

    assert checked.text.replace("checked", "short") == short.text
    assert repr(f32("M", 2)) == repr(f32["M", 2]) == "f32[M, 2]" and repr(f32(2, "M")) == "f32[2, M]"


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (Annotated[lang.Tensor, "no dtype"], "is annotated with 0 types of the language"),
        (Annotated[lang.Tensor, f32("M"), f32("N")], "is annotated with 2 types of the language"),
        (lang.Tensor, r"is not a type of the language\n.*Annotated\[Tensor, bf16\(\"M\", \"K\"\)\]"),
    ],
)
def test_annotations_without_one_type_are_refused(annotation: Any, message: str) -> None:
    def function(A: Any) -> Any:
        return A

    function.__annotations__ = {"A": annotation, "return": f32["M"]}
    with pytest.raises(KernelError, match=message):
        kernel(function)
