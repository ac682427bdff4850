"""memopt fits a training step into a memory budget.

    $ memopt plan model.onnx --dim batch=8 --budget 60%

This distribution carries the program ``memopt``. ``binary`` gives its path and ``run`` runs it. ``memopt.torch`` plans
models of PyTorch and applies the plans, and ``memopt.ortmodule`` puts plans into ORTModule; they alone need torch.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

__all__ = ["Error", "__version__", "binary", "run"]

try:
    __version__ = metadata.version("memopt")
except metadata.PackageNotFoundError:  # a checkout on sys.path
    __version__ = "0+unknown"


class Error(Exception):
    """A command of memopt that failed.

    Attributes:
        code: the exit code: 1 for a failed check, 2 for wrong usage or input, 3 where no plan fits the budget.
        output: the text on standard output, which a failed command may have as well.
    """

    def __init__(self, message: str, code: int, output: str) -> None:
        super().__init__(message)
        self.code, self.output = code, output


def binary() -> str:
    """The path of the program: of the environment variable MEMOPT_BINARY where it is set, else of the one that this
    distribution carries.

    Raises:
        FileNotFoundError: there is no such program.
    """
    named = os.environ.get("MEMOPT_BINARY")
    path = Path(named) if named else Path(__file__).parent / "bin" / ("memopt.exe" if os.name == "nt" else "memopt")
    if path.is_file():
        return str(path)
    if named:
        raise FileNotFoundError(f"MEMOPT_BINARY={named}: no such file; wanted the program memopt")
    raise FileNotFoundError(
        f"{path}: no such file: this copy of the package is without the program; install a wheel of memopt, or "
        "set MEMOPT_BINARY to a program that `go build ./cmd/memopt` has made"
    )


def run(
    *arguments: str | os.PathLike[str], stdin: str = "", variables: bool = True, descriptors: tuple[int, ...] = ()
) -> str:
    """Runs the program and returns the text on its standard output. On Linux and macOS it ends with this process,
    however that ends.

        json.loads(memopt.run("plan", "model.onnx", "--budget", "60%", "-O", "json"))

    Args:
        arguments: those of the command line.
        stdin: the text on its standard input.
        variables: environment variables stand for flags that are not given, as MEMOPT_BUDGET for --budget.
        descriptors: open files that the program has too, under the same numbers: 7 is the file /dev/fd/7. Not on
            Windows.

    Raises:
        Error: the exit code is not 0. The message is the text on standard error.
    """
    env = _environment()
    if not variables:
        env = {k: v for k, v in env.items() if not k.startswith(("MEMOPT_", "ORTMODULE_"))}
    with _bound_to_this_process(env) as bound:
        done = subprocess.run(
            [binary(), *arguments],
            input=stdin,
            check=False,
            capture_output=True,
            encoding="utf-8",
            env=env,
            pass_fds=(*descriptors, *bound),
        )
    if done.returncode != 0:
        message = done.stderr.strip() or f"memopt ended with exit code {done.returncode}"
        raise Error(message, done.returncode, done.stdout)
    return done.stdout


# The program ends when the other end of the pipe of this number closes.
_PARENT = "MEMOPT_PARENT_PIPE"
_held: set[int] = set()


@contextmanager
def _bound_to_this_process(env: dict[str, str]) -> Iterator[tuple[int, ...]]:
    """The end of a pipe for a child with these variables; this process alone holds the other one, and closes it by its
    end. Empty on Windows, where children get no such descriptors."""
    if os.name != "posix":
        yield ()
        return
    child, own = os.pipe()
    _held.add(own)
    env[_PARENT] = str(child)
    try:
        yield (child,)
    finally:
        _held.discard(own)
        os.close(own)
        os.close(child)


def _release() -> None:
    """Closes the ends of pipes that a fork has copied, for the copies would outlive their process."""
    for own in _held:
        os.close(own)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release)


def _execute(arguments: list[str]) -> int:
    """Becomes the program, where the system can; else runs it and returns its exit code."""
    path = binary()
    if os.name == "posix":
        sys.stdout.flush()
        sys.stderr.flush()
        os.execve(path, ["memopt", *arguments], _environment())
    return subprocess.run([path, *arguments], check=False, env=_environment()).returncode


def _environment() -> dict[str, str]:
    """The variables of the process without the one that is this package's own."""
    return {k: v for k, v in os.environ.items() if k != "MEMOPT_BINARY"}
