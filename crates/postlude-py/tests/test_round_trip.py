"""Texts of kernels read as Python and traced again."""

from __future__ import annotations

import random
import re

import pytest

import postlude
from postlude import kernel, lang
from postlude.lang import f32


def random_expression(choose: random.Random, depth: int) -> str:
    """An expression of the function below as a person would write it, conditions and products among its parts."""
    if depth == 0:
        return choose.choice(["z", "C", "s", "bias", "2", "0.5", "(A @ W.T)", "(E @ V.T)"])

    def inner() -> str:
        return random_expression(choose, depth - 1)

    def condition(left: int) -> str:
        if left == 0:
            return choose.choice(["keep", f"({inner()} {choose.choice(['<', '<=', '>', '>=', '==', '!='])} z)"])
        if choose.random() < 0.3:
            return f"~{condition(left - 1)}"
        return f"({condition(left - 1)} {choose.choice('&|')} {condition(left - 1)})"

    form = choose.randrange(8)
    if form < 4:
        return f"({inner()} {choose.choice('+-*/')} {inner()})"
    if form == 4:
        return f"(-(z + {inner()}))"
    if form == 5:
        return f"where({condition(2)}, z + {inner()}, {inner()})"
    return f"{choose.choice(['relu', 'exp', 'square', 'bf16'])}(z - {inner()})"


ROUND_TRIP = """
def expression(
    A: f32["M", "K"], W: f32["N", "K"], E: f32["M", "J"], V: f32["N", "J"],
    C: f32["M", "N"], bias: f32["N"], keep: bool_["M", "N"], s: f32,
) -> f32["M", "N"]:
    z = A @ W.T
    {body}
    return D
"""


@pytest.mark.parametrize("seed", range(60))
def test_a_text_is_python_that_is_traced_into_the_same_text(seed: int) -> None:
    names = {**vars(lang), "__name__": __name__}

    def traced(statements: list[str]) -> list[str]:
        exec(ROUND_TRIP.format(body="\n    ".join(statements)), names)
        lines = kernel(names["expression"]).text.splitlines()
        return [line.strip() for line in lines if line.startswith("    ") and " = " in line]

    once = traced([f"D = z + {random_expression(random.Random(seed), 3)}"])
    # `~` of a condition is the language's `!`.
    again = traced([re.sub("!(?!=)", "~", line) for line in once if not line.startswith("z = ")])
    assert again == once


def test_a_product_beside_a_factor_keeps_its_parentheses() -> None:
    @kernel
    def scores(k: f32["M", "K"], V: f32["N", "K"], r: f32["M"]) -> f32["M", "N"]:
        return r * (k @ V.T) - (-(k @ V.T))

    assert "D = r * (k @ V.T) - -(k @ V.T)\n" in scores.text
    typed = postlude.compile(scores.text)._native.typed_text([("f32", [2, 2]), ("f32", [2, 2]), ("f32", [2])])
    assert "r * (k @ V.T) - -(k @ V.T)" in typed
