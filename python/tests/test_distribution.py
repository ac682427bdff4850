"""The wheel, its program, and packages that can be imported without torch."""

import doctest
import os
import shutil
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import hatch_build
import pytest

import memopt

ROOT = Path(__file__).parent.parent


def python(*arguments, folder, code=0, executable=sys.executable, **environment):
    """Runs a Python without the packages of this one."""
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", **environment}
    done = subprocess.run([executable, "-S", *arguments], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel, built without a network in a copy of this folder beside the Go sources."""
    top = tmp_path_factory.mktemp("build")
    folder = top / "python"
    ignore = shutil.ignore_patterns("bin", "dist", ".*_cache", "__pycache__")
    shutil.copytree(ROOT, folder, ignore=ignore)
    for path in ROOT.parent.iterdir():
        if path.name not in ("python", ".git"):
            (top / path.name).symlink_to(path)
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel"], cwd=folder, check=True)
    (found,) = (folder / "dist").glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as z:
        z.extractall(folder)
    program = folder / "memopt" / "bin" / "memopt"
    assert wheel_mode(wheel, "memopt/bin/memopt") & 0o111 == 0o111
    program.chmod(0o755)  # as installers do, which zipfile does not
    return folder


def wheel_mode(wheel, name):
    with zipfile.ZipFile(wheel) as z:
        return z.getinfo(name).external_attr >> 16


def test_version_is_that_of_the_program(installed, wheel):
    (folder,) = installed.glob("*.dist-info")
    metadata = Parser().parsestr((folder / "METADATA").read_text(encoding="utf-8"))
    said = python("-m", "memopt", "version", folder=installed).split()[1]
    assert metadata["Version"] == hatch_build.python_version(said)
    assert python("-c", "import memopt; print(memopt.__version__)", folder=installed).strip() == metadata["Version"]
    assert metadata["Name"] == "memopt"
    assert metadata.get_all("License-File") == ["LICENSE", "THIRD_PARTY"]
    assert wheel.name.startswith(f"memopt-{metadata['Version']}-py3-none-")
    assert not wheel.name.endswith("-any.whl")


def test_licences_of_all_modules(installed):
    (folder,) = installed.glob("*.dist-info")
    text = (folder / "licenses" / "THIRD_PARTY").read_text(encoding="utf-8")
    listed = subprocess.run(["go", "version", "-m", installed / "memopt" / "bin" / "memopt"], capture_output=True,
                            text=True, check=True).stdout
    modules = [line.split()[1:3] for line in listed.splitlines() if line.startswith("\tdep\t")]
    assert len(modules) > 10
    for name, version in modules:
        assert f"\n{name} {version}\n" in text
    assert "\nGo's standard library\n" in text
    assert "\nuPlot\n" in text
    assert (folder / "licenses" / "LICENSE").read_bytes() == (ROOT.parent / "LICENSE").read_bytes()


def test_command_line(installed):
    """The program is the process that was started: it reads and writes, and its exit code is passed on."""
    text = python("-m", "memopt", "plan", "example:mlp", "--budget", "1B", folder=installed, code=3)
    assert "budget" in text
    script = "import memopt.__main__ as m, sys; sys.argv[1:] = ['version']; sys.exit(m.main())"
    assert python("-c", script, folder=installed).startswith("memopt ")
    broken = python("-m", "memopt", "version", folder=installed, code=2, MEMOPT_BINARY="/nowhere/memopt")
    assert broken == "memopt: MEMOPT_BINARY=/nowhere/memopt: no such file; wanted the program memopt\n"


def test_run(installed, monkeypatch):
    monkeypatch.setenv("MEMOPT_BINARY", str(installed / "memopt" / "bin" / "memopt"))
    assert memopt.run("version").startswith("memopt ")
    with pytest.raises(memopt.Error, match="budget") as caught:
        memopt.run("plan", "example:mlp", "--budget", "1B")
    assert caught.value.code == 3


def test_without_the_program(tmp_path):
    shutil.copytree(ROOT / "src" / "memopt", tmp_path / "memopt", ignore=shutil.ignore_patterns("bin"))
    assert "without the program" in python("-m", "memopt", folder=tmp_path, code=2)


def test_without_torch(installed):
    told = "ImportError: memopt.torch needs torch >= 2.6, and there is none; pip install 'memopt[torch]'"
    assert told in python("-c", "import memopt.torch", folder=installed, code=1)
    assert told in python("-c", "import memopt_torch", folder=installed, code=1)
    assert python("-c", "import memopt, sys; print('torch' in sys.modules)", folder=installed) == "False\n"


def test_older_torch(tmp_path):
    (tmp_path / "torch.py").write_text("__version__ = '2.5.1+cpu'\n")
    told = python("-c", "import memopt.torch", folder=f"{tmp_path}{os.pathsep}{ROOT / 'src'}", code=1)
    assert "ImportError: memopt.torch needs torch >= 2.6, this is torch 2.5.1+cpu" in told


def test_broken_torch(tmp_path):
    (tmp_path / "torch.py").write_text("import no_such_library\n")
    told = python("-c", "import memopt.torch", folder=f"{tmp_path}{os.pathsep}{ROOT / 'src'}", code=1)
    assert "No module named 'no_such_library'" in told


def test_former_name():
    import memopt.torch

    sys.modules.pop("memopt_torch", None)
    with pytest.warns(DeprecationWarning, match=r"memopt\.torch") as caught:
        import memopt_torch
    assert [w.filename for w in caught] == [__file__]
    assert all(getattr(memopt_torch, name) is getattr(memopt.torch, name) for name in memopt_torch.__all__)


# Pythons that the package is for. A machine has some of them.
@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13", "3.14"])
def test_syntax(version):
    """Every file compiles in the grammar of a version, and the core runs where that Python is there."""
    import ast

    minor = int(version.partition(".")[2])
    for path in (ROOT / "src").rglob("*.py"):
        ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, minor))
    executable = os.environ.get(f"PYTHON_3_{minor}") or shutil.which(f"python{version}")
    if executable and subprocess.run([executable, "-V"], capture_output=True, check=False).returncode == 0:
        said = python("-W", "error", "-c", "import memopt, memopt.__main__; print(memopt.__version__)",
                      folder=ROOT / "src", executable=executable)
        assert said.strip()


def test_python_version():
    assert doctest.testmod(hatch_build).attempted == 3
    for go, wanted in {
        "v1.2.3": "1.2.3", "v1.2.3-beta2": "1.2.3b2", "v2.0.0+incompatible": "2.0.0+incompatible",
        "v0.0.0-20260102030405-0123456789ab": "0.0.0.dev20260102030405+0123456789ab",
        "v1.2.3-rc.1.0.20260102030405-0123456789ab": "1.2.3rc1.dev20260102030405+0123456789ab",
    }.items():
        assert hatch_build.python_version(go) == wanted
    for go in ("1.2.3", "v1.2", "v1.2.3-nightly", ""):
        with pytest.raises(SystemExit, match="has no form in Python"):
            hatch_build.python_version(go)


def test_platforms():
    for system, machine, wanted in (
        ("linux", "amd64", "manylinux_2_17_x86_64.manylinux2014_x86_64"),
        ("darwin", "arm64", "macosx_12_0_arm64"),
        ("windows", "amd64", "win_amd64"),
    ):
        assert hatch_build.platform(system, machine) == wanted
    assert hatch_build.platform("linux", "arm64", cgo=True) == "linux_aarch64"
    assert hatch_build.platform("darwin", "arm64", cgo=True) == "macosx_12_0_arm64"
    with pytest.raises(SystemExit, match="GOOS=plan9 GOARCH=386"):
        hatch_build.platform("plan9", "386")


def test_files_of_a_source_distribution():
    """They are enough for the go command, and nothing is there for tests."""
    program = object.__new__(hatch_build.Program)
    program.root, program.sources = ROOT, ROOT.parent
    files = program.needed()
    assert {"go.mod", "go.sum", "LICENSE", "cmd/memopt/main.go", "version.go"} <= set(files)
    assert any(f.endswith(".s") for f in files)
    assert not [f for f in files if f.endswith("_test.go") or "testdata" in f]
