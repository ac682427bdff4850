"""A Python process that is killed while the program works for it: the program ends, and no file stays."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import memopt

ROOT = Path(__file__).parent.parent
DOUBLE = Path(__file__).parent / "ortmodule_double"

SEARCH = """
import memopt
memopt.run("plan", "example:transformer", "--budget", "45%", "--time-limit", "30m")
"""

PROGRAM = """#!/bin/sh
echo $$ >{started}.new
mv {started}.new {started}
"""

# The program waits for a writer of a pipe, so that it never ends by itself.
WAITS = 'exec "{binary}" plan "{fifo}"\n'

# A shell stays between the two processes.
BETWEEN = '"{binary}" plan "{fifo}"\nexit $?\n'

ORTMODULE = """
import sys
import memopt.ortmodule
from onnxruntime.training.ortmodule._training_manager import TrainingManager
job = TrainingManager(sys.argv[1])
job.build(**{name: (8, 512) for name in ("input_ids", "position_ids", "labels")})
"""

MODULES = """
import torch
import memopt.torch
model = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU()) for _ in range(4)))
memopt.torch.plan(model.train(), torch.ones(4, 8), budget="70%", loss=torch.sum)
"""

OPERATORS = """
from memopt.torch._compile._solve import solve
nodes = [{"id": "a", "inputs": [], "size": 1, "cost": 1}]
solve({"budget": 1, "nodes": nodes}, 1)
"""

# Another thread forks a process that outlives this one.
FORKED = """
import os, threading, time
import memopt

def fork():
    while not os.path.exists(os.environ["STARTED"]):
        time.sleep(0.01)
    if os.fork() == 0:
        time.sleep(3600)
        os._exit(0)
    open(os.environ["STARTED"] + ".forked", "w").close()

threading.Thread(target=fork).start()
memopt.run("plan", "example:mlp")
"""

TERM, HUP, KILL = signal.SIGTERM, signal.SIGHUP, signal.SIGKILL


@pytest.mark.parametrize(
    ("job", "program", "killed"),
    [
        *((SEARCH, 'exec "{binary}" "$@"\n', s) for s in (TERM, HUP, KILL)),
        *((ORTMODULE, WAITS, s) for s in (TERM, HUP, KILL)),
        (MODULES, WAITS, KILL),
        (OPERATORS, WAITS, KILL),
        (SEARCH, BETWEEN, KILL),
        (FORKED, WAITS, KILL),
    ],
    ids=["search-term", "search-hup", "search-kill", "ortmodule-term", "ortmodule-hup", "ortmodule-kill", "modules",
         "operators", "between", "forked"],
)
def test_killed(tmp_path, job, program, killed):
    """A signal to the Python process alone ends the program, though its search or its wait has no end."""
    started, fifo, temporary = tmp_path / "started", tmp_path / "fifo", tmp_path / "temporary"
    os.mkfifo(fifo)
    temporary.mkdir()
    script = tmp_path / "memopt"
    script.write_text((PROGRAM + program).format(started=started, fifo=fifo, binary=memopt.binary()), encoding="utf-8")
    script.chmod(0o755)
    graph = tmp_path / "step.onnx"
    if job == ORTMODULE:
        memopt.run("apply", "example:transformer", "--anchor", "off", "-o", graph, "-q", variables=False)
    folders = (DOUBLE, ROOT / "src") if job == ORTMODULE else (ROOT / "src",)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders)),
           "MEMOPT_BINARY": str(script), "MEMOPT_BUDGET": "60%", "TMPDIR": str(temporary), "STARTED": str(started)}
    process = subprocess.Popen([sys.executable, "-c", job, str(graph)], env=env, start_new_session=True)
    try:
        wait(started.exists, process, 6000)  # PyTorch takes long to load
        child = int(started.read_text(encoding="ascii"))
        wait(lambda: "memopt" in names(process.pid), process)
        if job == FORKED:
            wait(Path(f"{started}.forked").exists, process)
        time.sleep(0.3)  # neither ends by itself
        assert process.poll() is None
        assert "memopt" in names(process.pid)
        os.kill(process.pid, killed)
        assert process.wait() == -killed
        wait(lambda: "memopt" not in [name(p) for p in (child, *family(process.pid)) if running(p)])
        assert not list(temporary.glob("memopt*"))
        assert not list(tmp_path.glob(".*"))
    finally:
        for p in family(process.pid):
            os.kill(p, signal.SIGKILL)
        process.wait()


def wait(happens, process=None, times=600):
    """Waits for something, however slow the machine is."""
    for _ in range(times):
        if happens():
            return
        assert process is None or process.poll() is None, "the process has ended"
        time.sleep(0.05)
    pytest.fail("it does not happen")


def stat(process):
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="ascii")
    except OSError:
        return "", "Z", 0
    head, _, tail = text.rpartition(")")
    state, _, _, session = tail.split()[:4]
    return head.partition("(")[2], state, int(session)


def running(process):
    return stat(process)[1] != "Z"


def name(process):
    return stat(process)[0]


def family(session):
    """The running processes of a session."""
    found = [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit()]
    return [p for p in found if stat(p)[2] == session and running(p)]


def names(session):
    return [name(p) for p in family(session)]
