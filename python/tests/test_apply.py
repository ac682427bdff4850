import copy
import functools
import json
import pickle
import warnings

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

import models
from memopt.torch import Plan, PlanError, apply, check, measure, selective_policy

warnings.filterwarnings("ignore")


class Operators(TorchDispatchMode):
    """Records the operators that run."""

    def __init__(self):
        super().__init__()
        self.forward = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.forward.append(str(function.overloadpacket))
        return function(*args, **(kwargs or {}))


def step(model, x, y):
    model.zero_grad(set_to_none=True)
    models.loss(model(x), y).backward()
    return [p.grad.clone() for p in model.parameters()]


def runs(module):
    """Counts how often a module's own forward runs, whatever is around it."""
    count = [0]
    inner = module.up if hasattr(module, "up") else module.lin
    plain = inner.forward

    def forward(x):
        count[0] += 1
        return plain(x)

    inner.forward = forward
    return count


def test_gradients_are_equal_and_modules_run_again():
    model, (x, y) = models.Net().train(), models.batch()
    plain = step(model, x, y)
    counts = [runs(b) for b in model.h]
    with apply(model, models.plan(model, ["h.0", "h.2"])) as applied:
        assert applied.modules == ("h.0", "h.2")
        planned = step(model, x, y)
    assert [c[0] for c in counts] == [2, 1, 2]
    assert all(torch.equal(a, b) for a, b in zip(plain, planned, strict=True))
    step(model, x, y)
    assert [c[0] for c in counts] == [3, 2, 3], "the end of the block undoes the plan"


def test_check():
    for options in ({}, {"p": 0.3}, {"norm": True}, {"p": 0.3, "norm": True}):
        model, (x, y) = models.Net(**options).train(), models.batch()
        before = copy.deepcopy(model.state_dict())
        rng = torch.get_rng_state()
        model.h[0].up.weight.grad = torch.ones(32, 16)
        result = check(model, models.plan(model, ["h.0", "h.1", "h.2"]), x, loss=models.loss, labels=y)
        assert result, str(result)
        assert "equal bit for bit" in str(result)
        assert result.gradients == len(list(model.parameters()))
        assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
        assert torch.equal(rng, torch.get_rng_state())
        assert torch.equal(model.h[0].up.weight.grad, torch.ones(32, 16))
        assert model.head.weight.grad is None


def test_check_finds_differences():
    model, (x, y) = models.Net(p=0.5).train(), models.batch()
    result = check(model, models.plan(model, ["h.1"], preserve_rng_state=False), x, loss=models.loss, labels=y)
    assert not result
    assert "the gradient of h.0" in result.what
    assert result.difference > 0
    assert "differs by up to" in str(result)


def test_check_finds_buffers():
    model, (x, y) = models.Counts().train(), models.batch()
    plan = models.plan(model, ["outer"])
    result = check(model, plan, x, loss=models.loss, labels=y, hooks="allow")
    assert (result.what, result.difference) == ("the buffer inner.ran", 1.0)
    assert model.inner.ran.item() == 0


def test_check_says_the_largest_difference():
    model, (x, y) = models.Net(p=0.5).train(), models.batch()
    plan = models.plan(model, ["h.1"], preserve_rng_state=False)
    result = check(model, plan, x, loss=models.loss, labels=y)
    torch.manual_seed(0)
    plain = step(model, x, y)
    torch.manual_seed(0)
    with apply(model, plan):
        planned = step(model, x, y)
    largest = {f"the gradient of {n}": (a - b).abs().max().item()
               for (n, _), a, b in zip(model.named_parameters(), plain, planned, strict=True)}
    assert result.difference == pytest.approx(largest[result.what])


def test_without_gradients():
    model, (x, _) = models.Net().train(), models.batch()
    with apply(model, models.plan(model, ["h.0"])), torch.no_grad():
        model(x)
        model.h[0](x)
        model.h[0](x)


def test_random_numbers_are_kept_by_default():
    plan = models.plan(models.Net(), ["h.0"])
    del plan["preserve_rng_state"]
    assert Plan.load(plan).preserve_rng_state


def test_statistics_move_once():
    x, y = models.batch()
    for momentum in (0.1, None):
        model = models.Net(norm=True).train()
        for b in model.h:
            b.norm.momentum = momentum
        other = copy.deepcopy(model)
        with apply(model, models.plan(model, ["h.0", "h.1"])):
            for _ in range(3):
                step(model, x, y)
                step(other, x, y)
        for (name, a), (_, b) in zip(model.named_buffers(), other.named_buffers(), strict=True):
            assert torch.equal(a, b), name
        assert model.h[0].norm.num_batches_tracked.item() == 3
        assert model.h[0].norm.momentum == momentum


def test_nothing_changes_but_forward():
    model, (x, y) = models.Net().train(), models.batch()
    names = [n for n, _ in model.named_modules()]
    seen = []
    model.h[0].register_forward_hook(lambda *_: seen.append(1))
    applied = apply(model, models.plan(model, ["h.0"]))
    assert [n for n, _ in model.named_modules()] == names
    assert set(model.state_dict()) == set(models.Net().state_dict())
    assert isinstance(model.h[0], models.Block)
    step(model, x, y)
    assert seen == [1], "a hook of the module itself runs once"
    applied.remove()
    applied.remove()
    assert "forward" not in model.h[0].__dict__
    model.h[0]._forward_hooks.clear()
    pickle.loads(pickle.dumps(model))


def test_own_forward_comes_back():
    model, (x, y) = models.Net().train(), models.batch()
    runs(model.h[0])
    own = model.h[0].up.forward
    model.h[0].forward = model.h[0].forward
    mine = model.h[0].forward
    with apply(model, models.plan(model, ["h.0"])):
        step(model, x, y)
    assert model.h[0].forward is mine
    assert model.h[0].up.forward is own


def test_without_gradients_nothing_runs_again():
    model, (x, _) = models.Net().train(), models.batch()
    count = runs(model.h[0])
    with apply(model, models.plan(model, ["h.0"])), torch.no_grad():
        for _ in range(3):
            model(x)
    assert count[0] == 3


def test_tuples_dicts_and_keywords():
    x, y = models.batch()
    for form in ("tuple", "dict"):
        model = models.UsesPair(form).train()
        assert check(model, models.plan(model, ["inner"]), x, loss=models.loss, labels=y), form
        count = runs(model.inner)
        with apply(model, models.plan(model, ["inner"])):
            step(model, x, y)
        assert count[0] == 2, form


def test_autocast():
    model, (x, y) = models.Net().train(), models.batch()

    def loss(out, labels):
        return models.loss(out.float(), labels)

    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert check(model, models.plan(model, ["h.0", "h.1"]), x, loss=loss, labels=y)


def test_shared_parameters():
    model, (x, y) = models.Net().train(), models.batch()
    model.h[1].up.weight = model.h[0].up.weight
    names = models.plan(model, ["h.0", "h.1"])
    names["parameters"]["h.1.up.weight"] = [32, 16]
    assert check(model, names, x, loss=models.loss, labels=y)


def test_memory_falls():
    model, (x, y) = models.Net(blocks=8).train(), models.batch()
    x, y = x.repeat(200, 1), y.repeat(200)

    def once():
        step(model, x, y)

    plain = measure(once, show=False)
    with apply(model, models.plan(model, [f"h.{i}" for i in range(8)]), sizes="ignore"):
        planned = measure(once, show=False)
    assert planned.peak_bytes < 0.6 * plain.peak_bytes
    assert planned.device == "cpu"
    assert "MiB" in str(planned)


def refused(model, plan, *texts, **options):
    before = [dict(m.__dict__) for m in model.modules()]
    with pytest.raises(PlanError) as caught:
        apply(model, plan, **options)
    for text in texts:
        assert text in str(caught.value)
    for m, old in zip(model.modules(), before, strict=True):
        assert set(m.__dict__) == set(old)
        assert "forward" not in m.__dict__
        assert len(m._forward_pre_hooks) == len(old["_forward_pre_hooks"])


def test_no_such_module():
    model = models.Net().train()
    refused(model, models.plan(model, ["h.0", "h.7"]), "'h.7'", "does not have")
    refused(model, models.plan(model, ["h.0", "x.up"]), "it has h.0.up")


def test_another_model():
    model = models.Net().train()
    p = models.plan(model, ["h.0"])
    p["parameters"]["tail.weight"] = [3]
    refused(model, p, "a parameter tail.weight", "does not have")
    p = models.plan(model, ["h.0"])
    p["parameters"]["head.weight"] = [5, 17]
    refused(model, p, "head.weight", "(5, 17)", "(5, 16)")


def test_frozen():
    model = models.Net().train()
    p = models.plan(model, ["h.0"])
    model.h[0].up.weight.requires_grad_(False)
    refused(model, p, "h.0.up.weight", "frozen")


def test_evaluation():
    model = models.Net().train()
    model.h[1].eval()
    refused(model, models.plan(model, ["h.0", "h.1"]), "'h.1'", "evaluation mode")


def test_hooks_inside():
    model, (x, y) = models.Net().train(), models.batch()
    seen = []
    hook = model.h[0].act.register_forward_hook(lambda *_: seen.append(1))
    with pytest.raises(PlanError, match=r"h\.0\.act"):
        apply(model, models.plan(model, ["h.0"]))
    with apply(model, models.plan(model, ["h.0"]), hooks="allow"):
        step(model, x, y)
    assert len(seen) == 2
    hook.remove()


def test_twice():
    model = models.Net().train()
    with apply(model, models.plan(model, ["h.0"])), pytest.raises(PlanError, match=r"'h\.0'.*another plan"):
        apply(model, models.plan(model, ["h.0"]))


def test_two_names():
    model = models.Net().train()
    model.again = model.h[0]
    refused(model, models.plan(model, ["h.0"]), "'h.0'", "again")


def test_nested():
    names = ["h.0", "h.0.up", "h.1.drop", "h.1"]
    for options in ({}, {"p": 0.3, "norm": True}):
        model, (x, y) = models.Net(**options).train(), models.batch()
        result = check(model, models.plan(model, names, nested=True), x, loss=models.loss, labels=y)
        assert result, str(result)
    count = runs(model.h[0])
    with apply(model, models.plan(model, names, nested=True)):
        for i in range(2):
            step(model, x, y)
            assert count[0] == 3 * (i + 1), "forward, with the block, and by itself"


def test_nested_elsewhere():
    model = models.Net().train()
    here = torch.__version__
    other = "1.13.1"
    refused(model, models.plan(model, ["h.0", "h.0.up"], nested=True, torch=other), other, here)
    for more in ({"nested": False, "torch": other}, {"nested": True, "torch": here}, {"nested": True, "torch": ""},
                 {"nested": True, "torch": "unknown"}, {"nested": True, "torch": "2.1.2"}):
        apply(model, models.plan(model, ["h.0"], **more)).remove()


def test_script():
    model = models.Net().train()
    model.h[0] = torch.jit.script(nn.Linear(16, 16))
    with pytest.raises(PlanError, match=r"'h\.0'.*ScriptModule"):
        apply(model, models.plan(model, ["h.0"]))
    with pytest.raises(PlanError, match="ScriptModule"):
        apply(torch.jit.script(nn.Sequential(nn.Linear(2, 2))), models.plan(nn.Linear(2, 2), []))


def test_wrapped_models():
    model = models.Net().train()
    with pytest.raises(PlanError, match="DataParallel"):
        apply(nn.DataParallel(model), models.plan(model, ["h.0"]))


def test_distributed():
    class DistributedDataParallel(nn.Module):  # by its name: the real one needs a group of processes
        def __init__(self, module):
            super().__init__()
            self.module = module

    model = models.Net().train()
    with apply(DistributedDataParallel(model), models.plan(model, ["h.0"])) as applied:
        assert applied.modules == ("h.0",)
        assert "forward" in model.h[0].__dict__


def test_called_twice():
    model, (x, _y) = models.Twice().train(), models.batch()
    with apply(model, models.plan(model, ["block"])), pytest.raises(PlanError, match="'block' is called 2 times"):
        model(x)
    with apply(model, models.plan(model, ["block"], calls={"block": 2})):
        model(x).sum().backward()
        model(x)


def test_larger_inputs():
    model, (x, _) = models.Net().train(), models.batch()
    with apply(model, models.plan(model, ["h.0"])):
        model(x[:4])
        with pytest.raises(PlanError, match=r"\(24, 16\).*\(12, 16\)"):
            model(x.repeat(2, 1))
    with apply(model, models.plan(model, ["h.0"]), sizes="ignore"):
        model(x.repeat(2, 1))


def test_larger_inputs_are_said_once():
    model, (x, _) = models.Net().train(), models.batch()
    with apply(model, models.plan(model, ["h.0"]), sizes="warn"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            model(x.repeat(2, 1))
    said = [str(w.message) for w in caught if "input of the model" in str(w.message)]
    assert len(said) == 1 and said[0].endswith("the peak would be higher than promised")


def test_steps_that_call_parts_of_the_model():
    model, (x, _) = models.Net().train(), models.batch()
    with apply(model, models.plan(model, ["h.0"])) as applied:
        for _ in range(3):
            applied.begin(x)
            model.h[0](x).sum().backward()
        with pytest.raises(PlanError, match=r"'h\.0' is called 2 times"):
            model.h[0](x)
        with pytest.raises(PlanError, match="an input of the model is"):
            applied.begin(x.repeat(2, 1))


def test_a_copy_has_its_own_weights():
    model, (x, y) = models.Net().train(), models.batch()
    with apply(model, models.plan(model, ["h.0", "h.2"])):
        for other in (copy.deepcopy(model), copy.deepcopy(copy.deepcopy(model))):
            before = step(other, x, y)
            with torch.no_grad():
                for p in model.parameters():
                    p.mul_(1.5)
            counts = [runs(b) for b in other.h]
            for _ in range(3):
                after = step(other, x, y)
            assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
            assert [c[0] for c in counts] == [6, 3, 6], "the copy is under the plan"


def test_larger_keyword_inputs():
    model, (x, _y) = models.Net().train(), models.batch()
    with apply(model, models.plan(model, ["h.0"])):
        model(x=x)
        with pytest.raises(PlanError, match="an input of the model is"):
            model(x=torch.cat([x, x]))


def test_caches_are_off():
    model, (_x, _y) = models.Net().train(), models.batch()
    model.config, model.h[1].config = models.Config(True), models.Config(False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with apply(model, models.plan(model, ["h.0"])):
            assert (model.config.use_cache, model.h[1].config.use_cache) == (False, False)
        assert (model.config.use_cache, model.h[1].config.use_cache) == (True, False)
        with apply(model, models.plan(model, [])):
            assert model.config.use_cache, "nothing runs again"
    assert [str(w.message)[:30] for w in caught] == ["config.use_cache is off under "]


def test_compiled():
    model, (x, y) = models.Net().train(), models.batch()
    plain = step(model, x, y)
    with apply(model, models.plan(model, ["h.0", "h.2"])):
        explained = torch._dynamo.explain(model)(x)
        assert explained.graph_break_count == 0, explained.break_reasons
        planned = step(torch.compile(model, backend="aot_eager"), x, y)
    assert all(torch.allclose(a, b) for a, b in zip(plain, planned, strict=True))


def test_in_place():
    model, (x, _) = models.InPlace().train(), models.batch()
    message = "'inner' changes its input in place"
    with apply(model, models.plan(model, ["inner"])), pytest.raises(PlanError, match=message):
        model(x)


def test_options():
    model = models.Net().train()
    with pytest.raises(ValueError, match="sizes='x'"):
        apply(model, models.plan(model, []), sizes="x")
    with pytest.raises(ValueError, match="hooks='y'"):
        apply(model, models.plan(model, []), hooks="y")


def test_files(tmp_path):
    path = tmp_path / "plan.json"
    for text, message in (
        ("", "wanted a plan"),
        ("[]", "is no plan of modules"),
        ('{"format": "other"}', "is no plan of modules"),
        ('{"format": "memopt-modules", "version": 9}', "version 9"),
        ('{"format": "memopt-modules", "version": 1}', "damaged"),
        ('{"format": "memopt-modules", "version": 1, "modules": 3}', "damaged"),
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(PlanError, match=message):
            Plan.load(path)
    path.write_text(json.dumps(models.plan(models.Net(), ["h.0"])), encoding="utf-8")
    plan = Plan.load(path)
    assert plan.modules == ("h.0",)
    assert Plan.load(plan) is plan
    with pytest.raises(FileNotFoundError):
        Plan.load(tmp_path / "none")


def test_selective():
    """Products run once, the rest of a block twice, and gradients are equal."""
    model, (x, y) = models.Net(blocks=1).train(), models.batch()
    plain = step(model, x, y)
    policy = selective_policy(models.plan(model, ["h.0"]))
    context = functools.partial(create_selective_checkpoint_contexts, policy)
    with Operators() as ran:
        models.loss(model.head(checkpoint(model.h[0], x, use_reentrant=False, context_fn=context)), y).backward()
    assert (ran.forward.count("aten.addmm"), ran.forward.count("aten.gelu")) == (3, 2)
    assert all(torch.equal(2 * a, p.grad) for a, p in zip(plain, model.parameters(), strict=True))
