"""Compares memopt's peak of the programs that steps.py has written with the bytes that XLA says.

    python bench/hlo/compare.py OUT MEMOPT

A row for each step: XLA's argument + output + temporary - aliased bytes, memopt's peak, and by how much they differ.
"""

import json
import pathlib
import subprocess
import sys


def main():
    out, memopt = pathlib.Path(sys.argv[1]), sys.argv[2]
    worst = 0.0
    for name, m in json.loads((out / "steps.json").read_text())["steps"].items():
        want = m["argument_bytes"] + m["output_bytes"] + m["temporary_bytes"] - m["aliased_bytes"]
        have = [
            json.loads(subprocess.check_output([memopt, "inspect", f"{out}/{name}{form}", "-O", "json"]))["peak"]
            for form in (".hlo", ".hlo.pb")
        ]
        assert have[0] == have[1], f"{name}: text and protocol buffer differ"
        assert have[0]["argument_bytes"] == m["argument_bytes"], name
        assert have[0]["donated_bytes"] == m["aliased_bytes"], name
        off = have[0]["live_bytes"] / want - 1
        worst = max(worst, abs(off))
        print(f"{name:20} {want:12,} {have[0]['live_bytes']:12,} {off:+9.4%}")
    print(f"at most {worst:.2%} off")


if __name__ == "__main__":
    main()
