"""Several ranks that compile within a budget."""

import os
import subprocess
import sys
from pathlib import Path


def test_compiled_ranks(tmp_path):
    """One plan and one order of collectives for both ranks, and the gradients of eager."""
    folder = Path(__file__).parent
    env = {**os.environ, "PYTHONPATH": f"{folder.parent / 'src'}{os.pathsep}{folder}", "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen([sys.executable, folder / "compiled_ranks.py", str(rank), tmp_path / "store"], env=env,
                         text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for rank in range(2)
    ]
    said = [r.communicate(timeout=300)[0] for r in ranks]
    assert [r.returncode for r in ranks] == [0, 0], said[0] + said[1]
    assert all("done\n" in text for text in said)
