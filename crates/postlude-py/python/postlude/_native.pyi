"""The native half: kernels, calls on arrays, the library."""

from collections.abc import Sequence
from typing import Any, Optional, final

__all__ = ["Kernel", "Memory", "__version__", "functions", "library", "machine"]

__version__: str

# A dtype and a shape; None is a number.
_Shaped = Optional[tuple[str, Sequence[int]]]
# Name, dtype, dims; no dims for a number.
_Declared = tuple[str, str, Optional[list[str]]]

@final
class Kernel:
    def __new__(
        cls,
        text: str,
        *,
        math: str = "default",
        threads: Optional[int] = None,
        keep: Optional[Sequence[str]] = None,
    ) -> Kernel: ...
    @property
    def text(self) -> str: ...
    @property
    def inputs(self) -> list[str]: ...
    @property
    def outputs(self) -> list[str]: ...
    @property
    def signature(self) -> Optional[tuple[str, list[_Declared], list[_Declared]]]: ...
    def __call__(self, *args: Any, out: Any = None, **kwargs: Any) -> Any: ...
    def infer(self, inputs: Sequence[_Shaped]) -> list[tuple[str, list[int], str]]: ...
    def explain(self, inputs: Sequence[_Shaped], stage: Optional[str] = None) -> str: ...
    def check(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], outputs: Sequence[Any]
    ) -> list[tuple[str, int, int, float]]: ...
    def typed_text(self, inputs: Sequence[_Shaped]) -> str: ...

@final
class Memory:
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any: ...

def library() -> list[tuple[str, str, str]]: ...
def functions() -> list[tuple[str, list[str], str]]: ...
def machine() -> tuple[list[str], Optional[str], list[str]]: ...
