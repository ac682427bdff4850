"""Plans in the training loops of others."""

import copy
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

import models
from memopt.torch import Plan, PlanError, plan
from memopt.torch.callbacks import LightningCallback, TransformersCallback, attach
from memopt.torch.callbacks._attach import spans, table

warnings.filterwarnings("ignore")


def promised(model, modules, **more):
    return Plan.load(models.plan(model, modules, **more))


class Planner:
    """Puts given modules under checkpoints, and notes its arguments."""

    def __init__(self, *modules):
        self.modules, self.asked = modules, []

    def __call__(self, model, batch, **options):
        self.asked.append((model, batch, options))
        return promised(model, self.modules)


def step(model, x, y):
    model.zero_grad(set_to_none=True)
    models.loss(model(x), y).backward()
    return [p.grad.clone() for p in model.parameters()]


def test_first_step_plans_and_measures():
    model, (x, y) = models.Net().train(), models.batch()
    plain = step(model, x, y)
    planner, said = Planner("h.0", "h.2"), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    attached = attach(model, "60%", loss=models.loss, optimizer=optimizer, planner=planner, show=said.append)
    model.eval()
    model(x)
    model.train()
    with torch.no_grad():
        model(x)
    assert not planner.asked and attached.plan is None
    for _ in range(2):
        planned = step(model, x, y)
        assert all(torch.equal(a, b) for a, b in zip(plain, planned, strict=True))
    assert [m is model for m, _, _ in planner.asked] == [True]
    assert planner.asked[0][1][0] is x
    assert planner.asked[0][2] == {"budget": "60%", "loss": models.loss, "optimizer": optimizer}
    assert attached.applied.modules == ("h.0", "h.2")
    assert len(said) == 3
    assert said[0].startswith("memopt: planned in ") and said[0].endswith(" for a budget of 60%")
    assert "recomputed: h.0, h.2" in said[1]
    assert said[2].startswith("memopt: measured peak ")
    assert attached.measured_bytes > 0
    attached.remove()
    assert "forward" not in model.h[0].__dict__
    assert not model._forward_pre_hooks and not model._forward_hooks


def test_plans_are_applied_at_once(tmp_path):
    for what in (lambda p: p, lambda p: p.raw, lambda p: str(tmp_path / "plan.json")):
        model, (x, y) = models.Net().train(), models.batch()
        p = promised(model, ["h.1"])
        p.save(tmp_path / "plan.json")
        attached = attach(model, what(p), show=None)
        assert attached.applied.modules == ("h.1",)
        step(model, x, y)
        attached.remove()
        assert attached.measured_bytes > 0


def test_promise_is_kept():
    model, (x, y) = models.Net(blocks=4).train(), models.batch()
    x, y = x.repeat(50, 1), y.repeat(50)

    class WithLoss(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = model

        def forward(self, x, labels):
            return {"loss": models.loss(self.net(x), labels)}

    net = WithLoss().train()
    attached = attach(net, "70%", show=None)
    for _ in range(2):
        net(x, labels=y)["loss"].backward()
        torch.optim.SGD(net.parameters(), lr=0.0, momentum=0.9).step()
    assert attached.measured_bytes == pytest.approx(attached.plan.predicted_peak_bytes, rel=0.01)
    assert attached.applied.modules
    attached.remove()
    assert attached.plan.predicted_peak_bytes <= 0.7 * plan(net, {"x": x, "labels": y}).predicted_peak_bytes


def test_larger_batches_warn_once():
    model, (x, y) = models.Net().train(), models.batch()
    attach(model, promised(model, ["h.0"]), show=None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            step(model, x.repeat(2, 1), y.repeat(2))
    assert len([w for w in caught if str(w.message).endswith("the peak would be higher than promised")]) == 1


def test_what_is_no_budget_and_no_plan():
    model = models.Net().train()
    with pytest.raises(FileNotFoundError):
        attach(model, "60percent")
    with pytest.raises(PlanError, match=r"'h\.9'"):
        attach(model, promised(model, ["h.9"]))


@pytest.mark.parametrize(("budget", "wanted"), [("60%", "60%"), ("1MB", 1_000_000), (1 << 20, 1 << 20)])
def test_room_for_gradients_of_steps_before(budget, wanted):
    model, (x, y) = models.Net().train(), models.batch()
    gradients = sum(4 * p.numel() for p in model.parameters())
    for accumulation in (1, 4):
        planner = Planner("h.0")
        attached = attach(model, budget, planner=planner, accumulation=accumulation, show=None)
        step(model, x, y)
        attached.remove()
        (asked,) = planner.asked
        if accumulation == 1:
            assert asked[2]["budget"] == budget
        else:
            assert asked[2]["budget"] == (wanted if isinstance(wanted, str) else wanted - gradients)
    attached = attach(model, gradients, accumulation=2, show=None)
    with pytest.raises(PlanError, match="gradients of the steps before take"):
        model(x)
    attached.remove()


def test_table():
    p = promised(models.Net(), ["h.0"], peak_bytes=3 << 20, baseline_peak_bytes=5 << 20, held_bytes=1 << 20,
                 recompute_share=0.083)
    assert table(p).splitlines() == [
        "memopt            peak of a step           time",
        "without the plan        4.00 MiB  100 %",
        "promised                2.00 MiB   50 %  +8.3 %",
        "recomputed: h.0",
    ]
    assert "recomputed: nothing" in table(promised(models.Net(), []))
    names = ("h.0", "h.1", "h.2", "h.4.mlp", "h.5.mlp", "head", "x.9")
    assert spans(names) == ["h.0 to h.2", "h.4.mlp to h.5.mlp", "head", "x.9"]


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=3,
                         num_attention_heads=2, num_key_value_heads=1, use_cache=False)
    return LlamaForCausalLM(config).train()


def trainer(model, folder, *callbacks, **options):
    from transformers import Trainer, TrainingArguments

    g = torch.Generator().manual_seed(0)
    ids = torch.randint(0, 64, (8, 24), generator=g)
    args = TrainingArguments(str(folder), per_device_train_batch_size=2, max_steps=3, logging_steps=1, report_to=[],
                             save_strategy="no", use_cpu=True, disable_tqdm=True, seed=1, **options)
    data = [{"input_ids": row, "labels": row} for row in ids]
    t = Trainer(model, args, train_dataset=data, callbacks=list(callbacks))
    t.train()
    return [h["loss"] for h in t.state.log_history if "loss" in h]


def test_transformers(tmp_path, capsys):
    """LoRA under gradient accumulation: losses are those without a plan, and the promise is kept."""
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"])
    options = {"gradient_accumulation_steps": 2}
    plain = trainer(peft.get_peft_model(llama(), config), tmp_path, **options)
    said = []
    callback = TransformersCallback("70%", show=said.append)
    model = peft.get_peft_model(llama(), config)
    assert trainer(model, tmp_path, callback, **options) == plain
    assert len(plain) == 3
    attached = callback.attached
    assert attached.plan.modules and all(n.startswith("base_model.model.model.layers.") for n in attached.plan.modules)
    assert attached.measured_bytes == pytest.approx(attached.plan.predicted_peak_bytes, rel=0.01)
    assert len(said) == 3
    assert not any("forward" in m.__dict__ for m in model.base_model.model.model.layers)


def test_transformers_refuses(tmp_path):
    with pytest.raises(PlanError, match="gradient_checkpointing is on"):
        trainer(llama(), tmp_path, TransformersCallback("70%"), gradient_checkpointing=True)


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_lightning(tmp_path, precision):
    lightning = pytest.importorskip("lightning")

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.net, self.losses = models.Net(blocks=4), []

        def training_step(self, batch):
            x, y = batch
            value = models.loss(self.net(x).float(), y)
            self.log("loss", value)
            if self._trainer is not None:
                self.losses.append(value.item())
            return value

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    def fit(*callbacks):
        module, (x, y) = Module(), models.batch()
        loader = torch.utils.data.DataLoader(list(zip(x.repeat(100, 1), y.repeat(100), strict=True)), batch_size=400)
        lightning.Trainer(max_epochs=1, accelerator="cpu", precision=precision, logger=False, barebones=False,
                          enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                          default_root_dir=tmp_path, callbacks=list(callbacks)).fit(module, loader)
        return module

    said = []
    callback = LightningCallback("75%", show=said.append)
    module = fit(callback)
    assert module.losses == fit().losses
    assert len(module.losses) == 3
    attached = callback.attached
    assert attached.plan.modules and all(n.startswith("net.h.") for n in attached.plan.modules)
    assert attached.measured_bytes == pytest.approx(attached.plan.predicted_peak_bytes, rel=0.02)
    assert len(said) == 3


def test_accelerate():
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
    model, (x, y) = models.Net().train(), models.batch()
    other = copy.deepcopy(model)
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    planner = Planner("h.0", "h.1")
    attached = attach(model, "60%", optimizer=optimizer, planner=planner, show=None)
    assert planner.asked == []
    for _ in range(4):
        with accelerator.accumulate(model):
            accelerator.backward(models.loss(model(x), y))
            optimizer.step()
            optimizer.zero_grad()
    assert isinstance(planner.asked[0][2]["optimizer"], torch.optim.SGD)
    plain = torch.optim.SGD(other.parameters(), lr=0.1)
    for _ in range(2):
        for _ in range(2):
            (models.loss(other(x), y) / 2).backward()
        plain.step()
        plain.zero_grad()
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))
    assert attached.applied.modules == ("h.0", "h.1")


def test_quantized_base(tmp_path):
    """QLoRA: a base of 4 bits, under a plan, has the gradients of the same without one."""
    pytest.importorskip("bitsandbytes")
    peft = pytest.importorskip("peft")
    from bitsandbytes.nn import Linear4bit

    model = llama()
    for layer in model.model.layers:
        for name in ("gate_proj", "up_proj", "down_proj"):
            old = getattr(layer.mlp, name)
            new = Linear4bit(old.in_features, old.out_features, bias=False, compute_dtype=torch.float32)
            new.load_state_dict(old.state_dict())
            setattr(layer.mlp, name, new.to("cpu"))
    model = peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=["q_proj", "down_proj"]))
    ids = torch.randint(0, 64, (2, 24), generator=torch.Generator().manual_seed(0))

    def gradients():
        model.zero_grad()
        model(input_ids=ids, labels=ids).loss.backward()
        return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}

    plain = gradients()
    attached = attach(model, "80%", show=None)
    planned = gradients()
    assert attached.plan.modules
    assert plain.keys() == planned.keys() and all(torch.equal(plain[n], planned[n]) for n in plain)


def test_ranks(tmp_path):
    """DistributedDataParallel and fully_shard on two ranks: one plan for both, and the gradients of one process."""
    folder = Path(__file__).parent
    env = {**os.environ, "PYTHONPATH": f"{folder.parent / 'src'}{os.pathsep}{folder}", "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen([sys.executable, folder / "ranks.py", str(rank), tmp_path / "store"], env=env, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for rank in range(2)
    ]
    said = [r.communicate(timeout=300)[0] for r in ranks]
    assert [r.returncode for r in ranks] == [0, 0], said[0] + said[1]
    assert all(text.endswith("done\n") for text in said)
