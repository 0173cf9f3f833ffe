"""Type checkers see what users see: a project that mypy and pyright accept in strict mode, mistakes that they find, stubs.

The package is checked as it is installed, from Python's path and with its ``py.typed``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from conftest import PACKAGE

#: The project.
PROGRAM, MISTAKES = (Path(__file__).with_name(name) for name in ("typed_program.py", "typed_mistakes.py"))
CONFIGURATION = str(PACKAGE / "mypy.ini")
PYRIGHT_SETTINGS = {"typeCheckingMode": "strict", "reportMissingModuleSource": False}


def mypy(*words: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    if find_spec("mypy") is None:
        pytest.skip("mypy is not installed: types are NOT checked by it")
    command = [sys.executable, "-m", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=folder)


def accepted(ran: subprocess.CompletedProcess[str]) -> None:
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The project in a folder of its own, with the settings that its checkers take."""
    for file in (PROGRAM, MISTAKES):
        shutil.copy(file, tmp_path)
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(PYRIGHT_SETTINGS))
    return tmp_path


def mistakes() -> list[int]:
    """The lines that are wrong."""
    lines = MISTAKES.read_text().splitlines()
    return [number for number, line in enumerate(lines, 1) if line.endswith("# expected")]


def test_mypy_accepts_the_project_strictly(project: Path) -> None:
    accepted(mypy("mypy", "--strict", PROGRAM.name, folder=project))


def test_mypy_finds_mistakes(project: Path) -> None:
    ran = mypy("mypy", "--strict", "--no-error-summary", "--hide-error-context", MISTAKES.name, folder=project)
    found = {int(line.split(":")[1]) for line in ran.stdout.splitlines() if ": error: " in line}
    assert sorted(found) == mistakes(), ran.stdout


def pyright(folder: Path, file: str) -> tuple[list[tuple[int, str]], str]:
    """What pyright reports of a file: lines and messages, and all that it prints."""
    if find_spec("pyright") is None:
        pytest.skip("pyright is not installed: types are NOT checked by it")
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, file]
    environment = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=folder, env=environment)
    reported = json.loads(ran.stdout)["generalDiagnostics"]
    return [(one["range"]["start"]["line"] + 1, one["message"]) for one in reported], ran.stdout


def test_pyright_accepts_the_project_strictly(project: Path) -> None:
    found, shown = pyright(project, PROGRAM.name)
    assert not found, shown


def test_pyright_finds_mistakes(project: Path) -> None:
    found, shown = pyright(project, MISTAKES.name)
    assert sorted({line for line, _ in found}) == mistakes(), shown


def test_the_project_runs() -> None:
    ran = subprocess.run([sys.executable, str(PROGRAM)], capture_output=True, text=True, timeout=600)
    accepted(ran)
    assert "('A', 'W', 'bias', 'alpha', '0'" in ran.stdout


def test_the_package_is_typed() -> None:
    accepted(mypy("mypy", "--config-file", CONFIGURATION, str(PACKAGE / "python/postlude")))


def test_stubs_are_those_of_the_native_half() -> None:
    accepted(mypy("mypy.stubtest", "--mypy-config-file", CONFIGURATION, "postlude._native"))
