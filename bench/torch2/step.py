"""Training steps of PyTorch that `memopt estimate --runtime torch` predicts, beside measured ones: see README.md."""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import pathlib
import sys
import tempfile
import warnings

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # before torch: its profiler says that there is no GPU

import onnx
import torch
import transformers
from torch import nn

import memopt
import memopt.torch as mt
from memopt.torch._measure import Meter

# Forms: width, layers, words, rows, length.
# The peak of a short one is the update's.
FORMS = {"small": (64, 3, 512, 4, 64), "middle": (256, 4, 1000, 8, 128), "short": (256, 2, 1000, 2, 8)}
TINY = {"tiny": (32, 2, 160, 2, 24), "tiny-short": (32, 1, 160, 2, 4)}  # of the program's tests

# Flags for a GPU, on which torch.optim updates all parameters together; the CPU does so when told.
FOREACH = ["--device", "a100", "--reserve", "0"]

# Optimizers: flags of memopt, and the same of torch.optim.
OPTIMIZERS = {
    "adamw": ([], lambda p: torch.optim.AdamW(p)),
    "adam, decay": (
        ["--optimizer", "adam", "--weight-decay", "0.1", "--decay-all"],
        lambda p: torch.optim.Adam(p, weight_decay=0.1),
    ),
    "sgd": (["--optimizer", "sgd"], lambda p: torch.optim.SGD(p, lr=0.1)),
    "sgd, momentum": (["--optimizer", "sgd", "--momentum", "0.9"], lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)),
    "sgd, nesterov, decay": (
        ["--optimizer", "sgd", "--momentum", "0.9", "--nesterov", "--weight-decay", "0.1"],
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    ),
    "adamw, foreach": (FOREACH, lambda p: torch.optim.AdamW(p, foreach=True)),
    "adam, decay, foreach": (
        [*FOREACH, "--optimizer", "adam", "--weight-decay", "0.1"],
        lambda p: torch.optim.Adam(p, weight_decay=0.1, foreach=True),
    ),
    "sgd, nesterov, decay, foreach": (
        [*FOREACH, "--optimizer", "sgd", "--momentum", "0.9", "--nesterov", "--weight-decay", "0.1"],
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1, foreach=True),
    ),
    "sgd, nesterov, foreach": (
        [*FOREACH, "--optimizer", "sgd", "--momentum", "0.9", "--nesterov"],
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, foreach=True),
    ),
    "no optimizer": (["--optimizer", "none"], lambda p: None),
}


class Step(nn.Module):
    """A model of transformers on words, one row of which is padded: the loss, and the logits."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, words: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        out = self.model(input_ids=words, attention_mask=mask, labels=words)
        return out.loss, out.logits


def build(family: str, form: str, attention: str) -> tuple[Step, list[torch.Tensor]]:
    width, layers, words, rows, length = (FORMS | TINY)[form]
    torch.manual_seed(0)
    if family == "gpt2":
        config = transformers.GPT2Config(
            vocab_size=words,
            n_embd=width,
            n_layer=layers,
            n_head=4,
            n_positions=length,
            resid_pdrop=0,
            embd_pdrop=0,
            attn_pdrop=0,
        )
    else:
        config = transformers.LlamaConfig(
            vocab_size=words,
            hidden_size=width,
            intermediate_size=2 * width,
            num_hidden_layers=layers,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=length,
        )
    config.use_cache = False
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention)
    mask = torch.ones(rows, length, dtype=torch.int64)
    mask[-1, length // 2 :] = 0
    return Step(model).train(), [torch.randint(3, words, (rows, length)), mask]


def measured(step: Step, inputs: list[torch.Tensor], make, keeps: bool, micros: int = 1) -> int:
    """The bytes of the second step, with those that are there throughout: parameters, buffers, inputs and state."""
    optimizer = make(step.parameters())

    def once() -> None:
        for _ in range(micros):
            out = step(*inputs)
            if not keeps:
                out = out[:1]
            out[0].backward()
            del out
        if optimizer is not None:
            optimizer.step()
        step.zero_grad(set_to_none=True)

    def kept() -> None:
        out = step(*inputs)
        out[0].backward()
        if optimizer is not None:
            optimizer.step()
        step.zero_grad(set_to_none=True)

    run = kept if keeps else once
    run()
    state = optimizer.state.values() if optimizer is not None else []
    held = [*step.parameters(), *step.buffers(), *inputs, *(t for s in state for t in s.values() if torch.is_tensor(t))]
    gc.collect()
    meter = Meter("cpu")
    meter.start()
    run()
    return meter.stop().peak + sum(t.nbytes for t in {id(t): t for t in held}.values())


def estimate(path: pathlib.Path, *flags: str) -> dict:
    return json.loads(memopt.run("estimate", path, "--runtime", "torch", "-O", "json", *flags))


def files(step: Step, inputs: list[torch.Tensor], folder: pathlib.Path) -> dict[str, pathlib.Path]:
    """The files that tell the step: of the default exporter without its optimizer, and the traced step."""
    with torch.no_grad():
        torch.onnx.export(
            step,
            tuple(inputs),
            folder / "model.onnx",
            dynamo=True,
            optimize=False,
            verbose=False,
            input_names=["words", "mask"],
            output_names=["loss", "logits"],
        )
    (folder / "step.json").write_text(mt.trace(step, inputs).to_json())
    return {"exported": folder / "model.onnx", "traced": folder / "step.json"}


def keep(path: pathlib.Path, to: pathlib.Path) -> None:
    """Copies a file of the exporter without numbers, and without its metadata about lines of Python."""
    model = onnx.load(path, load_external_data=False)
    for n in model.graph.node:
        scopes = [p for p in n.metadata_props if p.key == "pkg.torch.onnx.name_scopes"]
        del n.metadata_props[:]
        n.metadata_props.extend(scopes)
        n.doc_string = ""
    for v in (*model.graph.value_info, *model.graph.input, *model.graph.output):
        del v.metadata_props[:]
    to.write_bytes(model.SerializeToString())


def rows_of(family: str, form: str, attention: str, testdata: pathlib.Path | None = None) -> list[dict]:
    step, inputs = build(family, form, attention)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        paths = files(step, inputs, pathlib.Path(folder))
        if testdata is not None:
            keep(paths["exported"], testdata / f"{family}-{attention}-{form}.onnx")
            (testdata / f"{family}-{attention}-{form}.step.json").write_bytes(paths["traced"].read_bytes())
        for name, (flags, make) in OPTIMIZERS.items():
            cases = [("loss", [], False, 1)]
            if name == "adamw":
                cases += [
                    ("loss and logits", ["--outputs", "loss,logits"], True, 1),
                    ("loss, 2 micro-steps", ["--gradient-accumulation-steps", "2"], False, 2),
                ]
            for kept, more, keeps, micros in cases:
                real = measured(step, inputs, make, keeps, micros)
                for file, path in paths.items():
                    if keeps and file == "traced":
                        continue
                    said = estimate(path, *flags, *more)
                    rows.append(
                        {
                            "model": family,
                            "form": form,
                            "attention": attention,
                            "file": file,
                            "optimizer": name,
                            "kept": kept,
                            "flags": [*flags, *more],
                            "predicted": said["total_bytes"],
                            "measured": real,
                            "off": said["total_bytes"] / real - 1,
                            "peak": said["peak_node"],
                        }
                    )
                    print(rows[-1], file=sys.stderr, flush=True)
    return rows


def table(rows: list[dict]) -> str:
    lines = [
        "| model | form | attention | file | optimizer | kept | predicted KiB | measured KiB | off |",
        "| --- | --- | --- | --- | --- | --- | ---: | ---: | ---: |",
    ]
    for r in rows:
        lines.append(
            f"| {r['model']} | {r['form']} | {r['attention']} | {r['file']} | {r['optimizer']} | {r['kept']} | "
            f"{r['predicted'] / 1024:.1f} | {r['measured'] / 1024:.1f} | {100 * r['off']:+.2f} % |"
        )
    return "\n".join(lines) + "\n"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--table", help="write the table to this file")
    options.add_argument("--testdata", type=pathlib.Path, help="write tiny files and their figures to this folder")
    options.add_argument("--attention", choices=("sdpa", "eager"), action="append", help="default: both")
    options.add_argument("--form", choices=FORMS, action="append", help="default: all")
    chosen = options.parse_args()
    torch.set_num_threads(2)
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    forms = TINY if chosen.testdata else chosen.form or FORMS
    rows = [
        r
        for family in ("gpt2", "llama")
        for form in forms
        for attention in chosen.attention or ("sdpa", "eager")
        for r in rows_of(family, form, attention, chosen.testdata)
    ]
    if chosen.testdata:
        kept = ("model", "attention", "form", "file", "flags", "measured")
        text = ",\n ".join(json.dumps({k: r[k] for k in kept}) for r in rows)
        (chosen.testdata / "figures.json").write_text(f"[{text}]\n")
    if chosen.table:
        pathlib.Path(chosen.table).write_text(table(rows))
    print(table(rows))
    return 1 if any(abs(r["off"]) > 0.02 for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
