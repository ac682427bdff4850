"""memopt.ortmodule with a double of ORTModule."""

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import memopt

ROOT = Path(__file__).parent.parent
DOUBLE = Path(__file__).parent / "ortmodule_double"


def python(*arguments, folders=(DOUBLE,), code=0, cwd=None, **environment):
    """Runs a Python that finds the packages of some folders first; its output and its errors."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MEMOPT_", "ORTMODULE_")) or k == "MEMOPT_BINARY"}
    env["PYTHONWARNINGS"] = "default"
    env["PYTHONPATH"] = os.pathsep.join(map(str, (*folders, ROOT / "src")))
    done = subprocess.run([sys.executable, *arguments], env={**env, **environment}, capture_output=True, text=True,
                          check=False, cwd=cwd)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout, done.stderr


def package(folder, **files):
    """Writes modules, by dotted name."""
    for name, text in files.items():
        path = folder / (name.replace(".", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"onnxruntime.__init__": "__version__ = '1.32.0'"}, "this ONNX Runtime, 1.32.0, is built without training"),
        ({"onnxruntime.__init__": "__version__ = '1.18.1'", "onnxruntime.training.ortmodule.__init__": ""},
         "knows ORTModule of onnxruntime-training 1.19.2, and this is 1.18.1"),
        ({"onnxruntime.__init__": "__version__ = '1.19.2'",
          "onnxruntime.training.ortmodule.__init__": "raise AttributeError('_ARRAY_API not found')"},
         "ORTModule 1.19.2 cannot be imported: _ARRAY_API not found"),
        ({"onnxruntime.__init__": "__version__ = '1.19.2'",
          "onnxruntime.training.ortmodule.__init__": "import no_such_library"}, "lacks the package no_such_library"),
        ({"onnxruntime.__init__": "__version__ = '1.19.2'",
          "onnxruntime.training.ortmodule.__init__": "_FALLBACK_INIT_EXCEPTION = RuntimeError('no extensions.')"},
         "python -m onnxruntime.training.ortmodule.torch_cpp_extensions.install"),
    ],
)
def test_other_runtimes(tmp_path, files, told):
    package(tmp_path, **files)
    _, errors = python("-c", "import memopt.ortmodule", folders=(tmp_path,), code=1)
    assert told in errors.splitlines()[-1]


def test_no_runtime():
    _, errors = python("-S", "-c", "import memopt.ortmodule", folders=(), code=1)
    last = errors.splitlines()[-1]
    assert last.startswith("ImportError: memopt.ortmodule needs ORTModule, and there is no ONNX Runtime")
    assert "onnxruntime-training-cpu==1.19.2" in last
    assert "docs/ortmodule.md" in last


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    """A training graph with a YieldOp and symbols for the batch and its length."""
    path = tmp_path_factory.mktemp("step") / "step.onnx"
    memopt.run("apply", "example:transformer", "--anchor", "off", "-o", path, "-q", variables=False)
    return path


JOB = """
import sys
from onnxruntime.training.ortmodule._training_manager import TrainingManager
job = TrainingManager(sys.argv[1])
for batch in map(int, sys.argv[2:]):
    job.build(**{name: (batch, 512) for name in ("input_ids", "position_ids", "labels")})
    for _ in range(2):
        job.step()
print("again", [sum("recompute" in n.name for n in a.graph.node) for a in job.made])
print("steps", [a.calls for a in job.made], "own", job.said)
"""


# The session of a planned graph.
PLANNED = "('ORT_DISABLE_ALL', 'PRIORITY_BASED', 0, False)"


@pytest.fixture
def job(tmp_path, graph):
    """Runs a double of a job, built for batches one after the other; its output and its errors."""
    (tmp_path / "job.py").write_text(JOB, encoding="utf-8")

    def run(*batches, code=0, **environment):
        return python("-m", "memopt.ortmodule", "job.py", str(graph), *map(str, batches), cwd=tmp_path, code=code,
                      **environment)

    return run


def promised(output):
    """Bytes of the rows of the tables, by the row's name and note."""
    row = r"^(ORTModule, level 1|ORTModule|memopt's plan) +([\d.]+) ([MG])iB +(\d+) %  (\w+)"
    return [(name, kind, float(size) * 2 ** (20 if unit == "M" else 30), int(share))
            for name, size, unit, share, kind in re.findall(row, output, re.MULTILINE)]


def test_budget(job, graph):
    """The session runs the graph planned for its batch as it is, and one table is printed."""
    output, _ = job(8, MEMOPT_BUDGET="60%")
    rows = promised(output)
    assert [row[:2] for row in rows] == [("ORTModule", "predicted"), ("ORTModule, level 1", "predicted"),
                                         ("memopt's plan", "promised"), ("memopt's plan", "measured")]
    want = json.loads(memopt.run("plan", graph, "--dim", "batch=8,seq=512", "-O", "json", variables=False))
    assert rows[0][2] == pytest.approx(want["peak"]["baseline_bytes"], rel=1e-3)
    assert rows[2][3] <= 60
    clones = int(re.search(r"(\d+) nodes run again", output)[1])
    assert clones > 0
    assert f"again [{clones}]" in output
    assert f"steps [['forward', 'backward', 'forward', 'backward']] own [{PLANNED}]" in output


def test_a_plan_for_each_graph(job):
    """A graph that is built anew for another batch is planned anew."""
    output, _ = job(8, 2, MEMOPT_BUDGET="60%")
    bases = [row[2] for row in promised(output) if row[:2] == ("ORTModule", "predicted")]
    assert len(bases) == 2
    assert bases[0] > 2 * bases[1]


def test_own_variables(job):
    """memopt's variables win over ORTModule's, with one warning."""
    output, errors = job(8, 4, MEMOPT_BUDGET="60%", ORTMODULE_MEMORY_OPT_LEVEL="1")
    assert errors.count("ORTMODULE_MEMORY_OPT_LEVEL=1 has no effect: MEMOPT_BUDGET=60% decides") == 1
    assert f"own [{PLANNED}, {PLANNED}]" in output


def test_without_variables(tmp_path, graph):
    """Without a budget and a plan ORTModule stays as it is, and there is no table."""
    (tmp_path / "job.py").write_text("import memopt.ortmodule\n" + JOB, encoding="utf-8")
    output, errors = python("job.py", str(graph), "8", cwd=tmp_path, ORTMODULE_MEMORY_OPT_LEVEL="1")
    assert output.splitlines()[0] == "again [0]"
    assert "own [('ORT_ENABLE_ALL', 'DEFAULT', 1, True)]" in output
    assert not errors


def test_infeasible(job):
    """The step does not run, and the error has the lowest peak."""
    output, errors = job(8, code=1, MEMOPT_BUDGET="1%")
    assert not output
    last = errors.splitlines()[-1]
    assert last.startswith("memopt.ortmodule._plan.BudgetError: MEMOPT_BUDGET=1%: no plan ")
    assert re.search(r"\d+\.\d+ [MG]iB\b.*; allow more", last)


def test_plan_files(job, graph, tmp_path):
    """Plan files and configurations decide what runs again."""
    plan, config = tmp_path / "plan.json", tmp_path / "config.json"
    config.write_text('["Dropout+:1:-1"]', encoding="utf-8")
    report = json.loads(memopt.run("plan", graph, "--dim", "batch=8,seq=512", "--config", config, "--save-plan", plan,
                                   "-O", "json", variables=False))
    assert report["recompute"]["nodes"] > 0
    for path in (plan, config):
        output, _ = job(8, MEMOPT_PLAN=str(path))
        assert f"again [{report['recompute']['nodes']}]" in output
    _, errors = job(8, code=1, MEMOPT_PLAN=str(plan), MEMOPT_BUDGET="1%")
    assert "BudgetError" in errors
    _, errors = job(8, code=1, MEMOPT_PLAN=str(config), MEMOPT_BUDGET="60%")
    assert "is a configuration of ORTModule, which decides alone: unset MEMOPT_BUDGET" in errors
    _, errors = job(8, code=1, MEMOPT_PLAN="none.json")
    assert "none.json" in errors.splitlines()[-1]
    assert "wanted a file that memopt plan --save-plan has written" in errors


def test_unknown_cluster(job, tmp_path):
    """A cluster that no graph has is named once, with the nearest one that it has."""
    config = tmp_path / "config.json"
    config.write_text('["Dropout+:1:-1", "Droput+:1:-1", "Nowhere+Here+:1:-1"]', encoding="utf-8")
    output, errors = job(8, 4, MEMOPT_PLAN=str(config))
    assert "again [0" not in output
    assert errors.count('MEMOPT_PLAN=') == 2
    assert errors.count('no cluster of this graph has the id "Droput+"') == 1
    assert 'did you mean "Dropout+"?' in errors
    assert re.search('the id "Nowhere\\+Here\\+" .*; its clusters are \\["', errors)
    config.write_text('["Dropout+:1:-1"]', encoding="utf-8")
    assert not job(8, MEMOPT_PLAN=str(config))[1]


def test_refused_level(tmp_path, graph):
    """There is no row of a level whose graph ORTModule refuses, and a plan is as without the names."""
    (tmp_path / "job.py").write_text(
        "import onnx, sys\nm = onnx.load(sys.argv[1])\nfor n in m.graph.node: n.name = ''\n"
        "sys.argv[1] = 'unnamed.onnx'\nonnx.save(m, sys.argv[1])\n" + JOB, encoding="utf-8")
    output, _ = python("-m", "memopt.ortmodule", "job.py", str(graph), "8", cwd=tmp_path, MEMOPT_BUDGET="60%")
    assert [row[:2] for row in promised(output)] == [
        ("ORTModule", "predicted"), ("memopt's plan", "promised"), ("memopt's plan", "measured")]


@pytest.mark.parametrize("path", ["/dev/null", "."])
def test_plan_no_file(job, path):
    """A device is not read, for it may have no end, and neither is a folder."""
    _, errors = job(8, code=1, MEMOPT_PLAN=path)
    assert "it is no regular file; wanted a file that memopt plan --save-plan has written" in errors


def test_refused_graph(job):
    """An error of ORTModule's session names memopt's part in it."""
    _, errors = job(8, code=1, MEMOPT_BUDGET="60%", REFUSES="1")
    assert "MEMOPT_BUDGET=60%: ORTModule refuses the planned graph: an anchor is not known here" in errors


def test_command_line(tmp_path):
    """The script is the main module, with its arguments and its folder; processes that it spawns have its functions."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "beside.py").write_text("name = 'beside'\n", encoding="utf-8")
    (tmp_path / "sub" / "main.py").write_text(textwrap.dedent("""
        import multiprocessing, sys
        import beside

        def work(n):
            import memopt.ortmodule
            from onnxruntime.training.ortmodule._training_manager import TrainingManager
            return n + 1, hasattr(TrainingManager._create_execution_agent, "_memopt")

        if __name__ == "__main__":
            print(sys.argv, beside.name, __file__)
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.map(work, [1]))
            sys.exit(7)
        """), encoding="utf-8")
    command = ("-m", "memopt.ortmodule", "sub/main.py", "--epochs", "3")
    output, _ = python(*command, cwd=tmp_path, code=7, MEMOPT_BUDGET="60%")
    path = tmp_path / "sub" / "main.py"
    assert output.splitlines() == [f"['sub/main.py', '--epochs', '3'] beside {path}", "[(2, True)]"]
    _, errors = python(*command, cwd=tmp_path, code=2)
    assert errors == ("memopt.ortmodule: neither MEMOPT_BUDGET nor MEMOPT_PLAN is set; set MEMOPT_BUDGET, such as 50% "
                      "or 12GiB\n")
    _, errors = python("-m", "memopt.ortmodule", "none.py", cwd=tmp_path, code=2, MEMOPT_BUDGET="60%")
    assert errors == "memopt.ortmodule: none.py: no such script\n"
    assert "usage:" in python("-m", "memopt.ortmodule", "--help")[0]


def test_interrupt(tmp_path, graph):
    """Ctrl-C ends the job while the program searches, and the program with it."""
    (tmp_path / "job.py").write_text(JOB, encoding="utf-8")
    program, started = tmp_path / "memopt", tmp_path / "started"
    program.write_text(f"#!/bin/sh\necho $$ >{started}.new\nmv {started}.new {started}\nexec sleep 600\n",
                       encoding="ascii")
    program.chmod(0o755)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (DOUBLE, ROOT / "src"))), "MEMOPT_BUDGET": "60%",
           "MEMOPT_BINARY": str(program)}
    running = subprocess.Popen([sys.executable, "-m", "memopt.ortmodule", "job.py", str(graph), "8"], env=env,
                               cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while not started.exists():
        assert running.poll() is None
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGINT)
    _, errors = running.communicate()
    assert running.returncode == -signal.SIGINT
    assert errors.splitlines()[-1] == "KeyboardInterrupt"
    for _ in range(100):  # a process that has ended stays in the table until it is waited for
        if not running_still(int(started.read_text(encoding="ascii"))):
            return
        time.sleep(0.1)
    pytest.fail("the program still runs")


def running_still(process):
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
