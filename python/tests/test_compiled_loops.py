"""Budgets of compiled models in training loops."""

import pytest
import torch

import memopt.torch
import models
from memopt.torch import PlanError
from memopt.torch.callbacks import LightningCallback, TransformersCallback, attach
from test_callbacks import promised


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def said_twice(said):
    """Whether the promise was said, and once more beside the measured peak."""
    promise, measured = said
    return promise.startswith("memopt: predicted peak ") and measured.startswith("memopt: measured peak ")


def trained(folder, *callbacks, **options):
    """A Trainer after two steps of LoRA."""
    peft = pytest.importorskip("peft")
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=128, num_hidden_layers=2,
                         num_attention_heads=2, num_key_value_heads=1, use_cache=False)
    lora = peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj", "down_proj"])
    model = peft.get_peft_model(LlamaForCausalLM(config), lora)
    ids = torch.randint(0, 64, (8, 24), generator=torch.Generator().manual_seed(0))
    data = [{"input_ids": row, "labels": row} for row in ids]
    args = TrainingArguments(
        str(folder),
        per_device_train_batch_size=4,
        num_train_epochs=2,
        logging_steps=1,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
        seed=1,
        **options,
    )
    t = Trainer(model, args, train_dataset=data, eval_dataset=data[:4], callbacks=list(callbacks))
    t.train()
    return t


def history(t):
    return [{k: h[k] for k in ("loss", "grad_norm", "eval_loss") if k in h} for h in t.state.log_history]


def test_transformers(tmp_path):
    """Losses, norms of gradients and weights are those without a budget, and the promise is kept. An evaluation and
    accumulated gradients come between."""
    options = {"gradient_accumulation_steps": 2, "eval_strategy": "epoch"}
    said = []
    callback = TransformersCallback("80%", show=said.append)
    planned = trained(tmp_path, callback, torch_compile_backend="aot_eager", **options)
    plain = trained(tmp_path, **options)  # aot_eager computes as eager does
    assert history(planned) == history(plain) and len(history(plain)) == 5
    weights = zip(planned.model.parameters(), plain.model.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in weights)
    promise = callback.attached.promise
    assert promise.overhead > 0 and promise.held_bytes > 0
    assert said_twice(said)
    assert callback.attached.measured_bytes == pytest.approx(callback.attached.promised_bytes, rel=0.001)
    before = type(planned.accelerator.state.dynamo_plugin).__name__
    assert before == "TorchDynamoPlugin"


def test_transformers_refuses(tmp_path):
    with pytest.raises(ValueError, match="backend='eager': wanted 'inductor' or 'aot_eager'"):
        trained(tmp_path, TransformersCallback("70%"), torch_compile_backend="eager", max_steps=1)


def lightning_module(compiled, losses):
    lightning = pytest.importorskip("lightning")

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            net = models.Net(blocks=4)
            self.net = torch.compile(net, backend="aot_eager") if compiled == "part" else net

        def training_step(self, batch):
            x, y = batch
            return models.loss(self.net(x).float(), y)

        def validation_step(self, batch):
            self.net(batch[0])

        def on_train_batch_end(self, out, *_):
            losses.append(out["loss"].item())

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    return Module()


@pytest.mark.parametrize("compiled", ["whole", "part"])
def test_lightning(tmp_path, compiled):
    lightning = pytest.importorskip("lightning")

    def fit(*callbacks):
        torch._dynamo.reset()
        losses = []
        module, (x, y) = lightning_module(compiled, losses), models.batch()
        data = list(zip(x.repeat(60, 1), y.repeat(60), strict=True))
        loaders = [torch.utils.data.DataLoader(data, batch_size=180) for _ in range(2)]
        target = torch.compile(module, backend="aot_eager") if compiled == "whole" else module
        lightning.Trainer(max_epochs=1, accelerator="cpu", precision="bf16-mixed", logger=False, barebones=False,
                          enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                          gradient_clip_val=0.5, accumulate_grad_batches=1 if compiled == "whole" else 2,
                          default_root_dir=tmp_path,
                          callbacks=list(callbacks)).fit(target, *loaders[: 2 if compiled == "whole" else 1])
        return losses, [p.detach().clone() for p in module.parameters()]

    said = []
    callback = LightningCallback("75%", show=said.append)
    planned, plain = fit(callback), fit()
    assert planned[0] == plain[0] and len(plain[0]) == 4
    assert all(torch.equal(a, b) for a, b in zip(planned[1], plain[1], strict=True))
    step = callback.attached
    assert step.promise.overhead > 0
    assert step.measured_bytes == pytest.approx(step.promised_bytes, rel=0.01 if compiled == "whole" else 0.1)
    assert said_twice(said)


class WithLoss(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = models.Net(blocks=4)

    def forward(self, x, y):
        return models.loss(self.net(x), y)


def loop(model, optimizer, x, y, steps=3):
    for i in range(steps):
        model(x[i:], y[i:]).backward()
        optimizer.step()
        optimizer.zero_grad()


def test_accelerate():
    """A model that accelerate has compiled is compiled anew within the budget, and each size of batch once."""
    accelerate = pytest.importorskip("accelerate")
    accelerate.state.AcceleratorState._reset_state(True)
    x, y = (t.repeat(50, *[1] * (t.dim() - 1)) for t in models.batch())
    plain = WithLoss().train()
    loop(plain, torch.optim.SGD(plain.parameters(), lr=0.1), x, y)
    accelerator = accelerate.Accelerator(cpu=True, dynamo_backend="aot_eager")
    model = WithLoss().train()
    compiled, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    said = []
    budget = 4 << 20
    step = attach(compiled, budget, optimizer=optimizer, accumulation=2, show=said.append)
    assert compiled.memopt is step.promise
    loop(compiled, optimizer, x, y)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), plain.parameters(), strict=True))
    assert step.pending and len(said) == 1, "each step had another size"
    for _ in range(2):
        compiled(x, y).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert said_twice(said)
    assert not step.pending and not step.hooks
    gradients = sum(p.nbytes for p in model.parameters())
    assert step.promise.predicted_total_bytes + gradients <= budget
    assert step.measured_bytes == pytest.approx(step.promised_bytes, rel=0.01)
    accelerate.state.AcceleratorState._reset_state(True)


def test_refusals(tmp_path):
    model = WithLoss()
    with pytest.raises(PlanError, match="compiled by the backend 'eager'"):
        attach(torch.compile(model, backend="eager"), "60%")
    compiled = torch.compile(model, backend="aot_eager")
    with pytest.raises(PlanError, match="the plan is one of modules"):
        attach(compiled, promised(models.Net(), ["h.0"]))
    several = torch.nn.Sequential(*(torch.compile(models.Net(), backend="aot_eager") for _ in range(2)))
    with pytest.raises(PlanError, match="the modules '0', '1' are compiled each by itself"):
        attach(several, "60%")


def test_plan_of_operators(tmp_path):
    x, y = (t.repeat(50, *[1] * (t.dim() - 1)) for t in models.batch())
    inputs = {"x": x, "y": y}
    plan = memopt.torch.plan(WithLoss().train(), inputs, budget="80%", select="operators", backend="aot_eager")
    plan.save(tmp_path / "operators.json")
    for what in (plan, str(tmp_path / "operators.json")):
        torch._dynamo.reset()
        compiled = torch.compile(WithLoss().train(), backend="aot_eager")
        step = attach(compiled, what, show=None)
        for _ in range(3):
            compiled(**inputs).backward()
            compiled.zero_grad()
        assert step.promise.predicted_peak_bytes == plan.predicted_peak_bytes
        assert step.measured_bytes == pytest.approx(plan.predicted_peak_bytes, rel=0.01)
