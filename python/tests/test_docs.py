"""Runs the programs and commands of docs/pytorch.md."""

import os
import re
import runpy
import shlex
import sys
import warnings
from pathlib import Path

import pytest

import memopt

PAGE = Path(__file__).parent.parent.parent / "docs" / "pytorch.md"
FILE = re.compile(r"^```python\n# (\S+\.py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SESSION = re.compile(r"^(?:    (?:\$ )?.*\n)+", re.MULTILINE)


def sessions(text):
    """Commands of the page, each with the output below it."""
    for block in SESSION.findall(text):
        lines = [line.removeprefix("    ") for line in block.splitlines()]
        for i, line in enumerate(lines):
            if line.startswith("$ "):
                rest = lines[i + 1:]
                end = next((j for j, other in enumerate(rest) if other.startswith("$ ")), len(rest))
                yield line.removeprefix("$ "), rest[:end]


def shown(pattern, output):
    """Whether an output is as the page shows it; an ellipsis stands for any text, alone on a line for any lines."""
    parts = [".*" if line == "…" else re.escape(line).replace("…", "[^\\n]*") + "\\n" for line in pattern]
    return re.fullmatch("".join(parts), output, re.DOTALL) is not None


def run(command, capsys):
    program, *arguments = shlex.split(command)
    if program == "memopt":
        return memopt.run(*arguments)
    assert program == "python"
    for name in ("net", "lit", "own", "planned", "trainer", "trainer_compiled", "compiled"):
        sys.modules.pop(name, None)  # each command is a process of its own
    sys.modules["accelerate.state"].AcceleratorState._reset_state(True)
    capsys.readouterr()
    if arguments[0] == "-c":
        exec(compile(arguments[1], command, "exec"), {})
    else:
        runpy.run_path(arguments[0], run_name="__main__")
    return capsys.readouterr().out


def test_page(tmp_path, monkeypatch, capsys):
    for package in ("accelerate", "lightning", "transformers", "onnxscript"):
        pytest.importorskip(package)
    text = PAGE.read_text(encoding="utf-8")
    for name, body in FILE.findall(text):
        (tmp_path / name).write_text(body, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    warnings.filterwarnings("ignore")
    found = [s for s in sessions(text) if s[0].split()[0] in ("python", "memopt")]
    assert len(found) == 13
    for command, pattern in found:
        output = run(command, capsys)
        assert not pattern or shown(pattern, output), f"$ {command}\n{output}"
    assert os.path.exists("plan.json")
