"""Mistakes that type checkers have to see: each line with `expected` behind it is an error."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import numpy.typing as npt

import postlude
from postlude.lang import Tensor, f32, relu


@postlude.kernel
def rectified(A: Annotated[Tensor, f32("M", "N")]) -> Annotated[Tensor, f32("M", "N")]:
    return relu(A)


array: npt.NDArray[np.float32] = np.ones((2, 3), np.float32)
number: int = rectified(array)  # expected
rectified.inputs = ()  # expected
postlude.compile(3)  # expected
postlude.compile("D = relu(A)", thread=2)  # expected
relu(array, 2)  # expected
f32(3.5, "M")  # expected
