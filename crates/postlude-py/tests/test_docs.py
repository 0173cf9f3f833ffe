"""What is written about the package is true: code of pages, cells of the notebook and docstrings.

A page's blocks of Python run in order and share their names. A fence says more behind `python`: `torch` or `jax` runs where
that can be imported, `shown` is code for another system, which has to be Python and is not run.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import importlib.util
import json
import linecache
import pkgutil
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

import postlude

PAGES = ["README.md", "crates/postlude-py/README.md", "docs/python.md", "docs/coming_from.md", "docs/repacking.md"]
NOTEBOOK = "docs/tutorial.ipynb"
#: Frameworks that a fence may ask for.
FRAMEWORKS = ("torch", "jax")


def blocks(page: str) -> list[tuple[int, tuple[str, ...], str]]:
    """The blocks of Python of a page: line, words behind `python`, code."""
    found, inside, start, lines = [], None, 0, []
    for number, line in enumerate((ROOT / page).read_text().splitlines(), 1):
        fence = re.fullmatch(r"\s*```(.*)", line)
        if fence is None:
            lines.append(line)
        elif inside is None:
            inside, start, lines = fence[1].split(), number + 1, []
        else:
            if inside[:1] == ["python"]:
                found.append((start, tuple(inside[1:]), "\n".join(lines) + "\n"))
            inside = None
    assert inside is None, f"{page}: a block is not closed"
    return found


BLOCKS = [(page, *block) for page in PAGES for block in blocks(page)]
#: What the blocks of a page have defined so far.
names: dict[str, dict[str, Any]] = {}


def execute(code: str, page: str, line: int) -> None:
    """Runs code in the names of its page; errors and traces show its lines."""
    name = f"<{page}:{line}>"
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    scope = names.setdefault(page, {"__name__": "__main__"})
    exec(compile(code, name, "exec"), scope)


@pytest.mark.parametrize(("page", "line", "words", "code"), BLOCKS, ids=[f"{page}:{line}" for page, line, _, _ in BLOCKS])
def test_code_of_pages_runs(page: str, line: int, words: tuple[str, ...], code: str) -> None:
    unknown = [word for word in words if word not in (*FRAMEWORKS, "shown")]
    assert not unknown, f"{page}:{line}: {unknown} is not known behind `python`"
    for framework in FRAMEWORKS:
        if framework in words and importlib.util.find_spec(framework) is None:
            pytest.skip(f"{framework} is not installed: {page} in part")
    if "shown" in words:
        compile(code, f"{page}:{line}", "exec")
    else:
        execute(code, page, line)


def test_every_operator_and_module_for_torch_is_documented() -> None:
    source = (ROOT / "crates/postlude-py/python/postlude/torch.py").read_text()
    names = next(
        ast.literal_eval(one.value)
        for one in ast.parse(source).body
        if isinstance(one, ast.Assign) and getattr(one.targets[0], "id", "") == "__all__"
    )
    page = (ROOT / "docs/python.md").read_text()
    assert len(names) > 10 and [name for name in names if not re.search(rf"`(fused\.)?{name}\b", page)] == []


def test_every_page_has_code() -> None:
    assert {page for page, *_ in BLOCKS} == set(PAGES)


def test_cells_of_the_notebook_run_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    notebook = json.loads((ROOT / NOTEBOOK).read_text())
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert notebook["nbformat"] == 4 and len(cells) > 5
    for number, cell in enumerate(cells, 1):
        assert not cell["outputs"], "the notebook is kept without outputs"
        execute("".join(cell["source"]), NOTEBOOK, number)
    assert capsys.readouterr().out


def modules() -> list[str]:
    found = pkgutil.iter_modules(postlude.__path__, "postlude.")
    return ["postlude", *(one.name for one in found if one.name != "postlude._native")]


@pytest.mark.parametrize("name", modules())
def test_examples_of_docstrings(name: str) -> None:
    found = importlib.util.find_spec(name)
    assert found is not None and found.origin is not None
    source = Path(found.origin).read_text()
    for framework in FRAMEWORKS:
        # In the module or in an example.
        needed = re.search(rf"^(\s*>>> )?(import|from) {framework}\b", source, re.M)
        if needed and importlib.util.find_spec(framework) is None:
            pytest.skip(f"{framework} is not installed: examples of {name}")
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0
