"""memopt.torch.compile on other versions of PyTorch: its tests, and predicted against measured peaks: see README.md."""

from __future__ import annotations

import argparse
import os
import pathlib
import subprocess
import sys

import promises

MODELS = ("gpt2", "llama", "bert", "vit")
TESTS = ("tests/test_compile.py", "tests/test_ask.py")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("versions", nargs="*", help="of torch, such as 2.14.1")
    options.add_argument("--venvs", type=pathlib.Path, default="/tmp/memopt-versions", help="a folder; they stay there")
    options.add_argument("--models", nargs="*", default=MODELS)
    options.add_argument("--backends", nargs="*", default=("aot_eager", "inductor"))
    options.add_argument("--no-tests", action="store_true", help="measure alone")
    chosen = options.parse_args()
    failed = False
    print(f"| torch | backend | model {promises.HEADER}")
    print("| --- | --- | --- | --- | ---: | ---: | ---: | ---: | --- |")
    for version in chosen.versions:
        python = environment(chosen.venvs / version, version)
        for backend in chosen.backends:
            for model in chosen.models:
                rows = promises.of_process(python, model, backend)
                failed |= rows is None or any(r["fault"] for r in rows)
                for row in rows or ():
                    print(f"| {version} | {backend} | {model} | {row['text']} |", flush=True)
        if not chosen.no_tests:
            out = promises.run([python, "-m", "pytest", "-q", *TESTS], cwd=promises.PYTHON, stdout=subprocess.PIPE)
            failed |= out.returncode != 0
            print(f"| {version} | tests | {'pass' if out.returncode == 0 else out.stdout[-2000:]} |", flush=True)
    return int(failed)


def environment(folder: pathlib.Path, version: str) -> str:
    """The interpreter of a virtual environment with a version of torch, which is made where it is not there."""
    python = str(folder / "bin" / "python")
    if not os.path.exists(python):
        subprocess.run(["uv", "venv", "--quiet", folder], check=True)
        packages = (f"torch=={version}", "transformers", "pytest")
        subprocess.run(["uv", "pip", "install", "--quiet", "--python", python, *packages], check=True)
    return python


if __name__ == "__main__":
    sys.exit(main())
