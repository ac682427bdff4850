"""Writes the table of what measure.py has measured: python table.py ROWS.json... >TABLE.md"""

from __future__ import annotations

import json
import sys
from pathlib import Path

MIB = 2**20
PRICE = "memopt at level 1's price"


def main() -> None:
    nets = [json.loads(Path(p).read_text()) for p in sys.argv[1:]]
    head = ["net", "setting", "predicted, MiB", "measured, MiB", "measured ÷ predicted", "of level 0", "time ÷ level 0"]
    head += ["loss off", "gradients off", "off level 0's"]
    print("| " + " | ".join(head) + " |")
    print("| --- " * len(head) + "|")
    for n in nets:
        base = n["rows"]["level 0"]["measured"]
        for name, r in n["rows"].items():
            told = r.get("predicted")
            cells = [
                n["net"],
                name + (f" {' '.join(r['config'])}" if "config" in r else ""),
                f"{told / MIB:.2f}" if told else "",
                f"{r['measured'] / MIB:.2f}",
                f"{r['measured'] / told:.3f}" if told else "",
                f"{100 * r['measured'] / base:.0f} %",
                f"{r['time_ratio']:.2f}",
                *(f"{r[k]:.1e}" if k in r else "" for k in ("loss_off", "gradients_off", "changed")),
            ]
            print("| " + " | ".join(cells) + " |")
    print()
    print("| net | lowest predicted of memopt's plans, of level 0 | bound: no plan is lower | 50 % |")
    print("| --- | --- | --- | --- |")
    for n in nets:
        base = n["rows"]["level 0"]["predicted"]
        low = min(r["predicted"] for k, r in n["rows"].items() if k.startswith("memopt"))
        half = "found" if 2 * low <= base else "ruled out" if 2 * n["bound"] > base else "open"
        print(f"| {n['net']} | {100 * low / base:.1f} % | {100 * n['bound'] / base:.1f} % | {half} |")
    print()
    rows = [r for n in nets for r in n["rows"].values()]
    told = [r["measured"] / r["predicted"] for r in rows if r.get("predicted")]
    close, worst = sum(abs(x - 1) <= 0.01 for x in told), max(told, key=lambda x: abs(x - 1))
    print(f"* Predictions: {close} of {len(told)} within 1 %, worst {worst:.3f}.")
    both = [(n["rows"][PRICE]["measured"], n["rows"]["level 1"]["measured"]) for n in nets if PRICE in n["rows"]]
    lower = sum(a < 0.995 * b for a, b in both)
    higher = sum(a > 1.005 * b for a, b in both)
    print(f"* memopt at the estimated price of level 1: lower in {lower}, higher in {higher} of {len(both)} nets.")
    best = []
    for n in nets:
        plans = [r["measured"] for k, r in n["rows"].items() if k.startswith("memopt")]
        best += [min(plans) / n["rows"]["level 0"]["measured"]] if plans else []
    print(f"* Lowest peak of memopt's plans, of level 0: {100 * min(best):.0f} to {100 * max(best):.0f} %.")
    off = {n["net"]: [r["gradients_off"] for r in n["rows"].values() if "gradients_off" in r] for n in nets}
    own = {net: x[0] for net, x in off.items() if x and x[0] > 1e-5}
    close = max(max(x) for net, x in off.items() if x and net not in own)
    print(f"* Largest difference of a gradient from PyTorch's, by its largest element: {close:.1e}.")
    for net, x in own.items():
        print(
            f"* ORTModule's own gradients of {net} differ by up to {x:.1e}, and those of plans by {max(off[net]):.1e}."
        )
    moved = [r["changed"] for r in rows if "changed" in r]
    print(f"* Largest difference of a gradient from ORTModule's own at level 0: {max(moved):.1e}.")


if __name__ == "__main__":
    main()
