import copy
import json
import os
import pickle
import tempfile
import unittest
import warnings

import torch
from torch import nn

from memopt_torch import Plan, PlanError, apply, check, measure, selective_policy

from memopt_torch._apply import _KEYWORDS

from . import models

warnings.filterwarnings("ignore")


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


class TestApply(unittest.TestCase):
    def test_gradients_are_equal_and_modules_run_again(self):
        model, (x, y) = models.Net().train(), models.batch()
        plain = step(model, x, y)
        counts = [runs(b) for b in model.h]
        with apply(model, models.plan(model, ["h.0", "h.2"])) as applied:
            self.assertEqual(applied.modules, ("h.0", "h.2"))
            planned = step(model, x, y)
        self.assertEqual([c[0] for c in counts], [2, 1, 2])
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(plain, planned)))
        step(model, x, y)
        self.assertEqual([c[0] for c in counts], [3, 2, 3], "the end of the block undoes the plan")

    def test_check(self):
        for options in ({}, {"p": 0.3}, {"norm": True}, {"p": 0.3, "norm": True}):
            model, (x, y) = models.Net(**options).train(), models.batch()
            before = copy.deepcopy(model.state_dict())
            rng = torch.get_rng_state()
            model.h[0].up.weight.grad = torch.ones(32, 16)
            result = check(model, models.plan(model, ["h.0", "h.1", "h.2"]), x, loss=models.loss, labels=y)
            self.assertTrue(result, str(result))
            self.assertIn("equal bit for bit", str(result))
            self.assertEqual(result.gradients, len(list(model.parameters())))
            self.assertTrue(all(torch.equal(v, before[k]) for k, v in model.state_dict().items()))
            self.assertTrue(torch.equal(rng, torch.get_rng_state()))
            self.assertTrue(torch.equal(model.h[0].up.weight.grad, torch.ones(32, 16)))
            self.assertIsNone(model.head.weight.grad)

    def test_check_finds_differences(self):
        model, (x, y) = models.Net(p=0.5).train(), models.batch()
        result = check(model, models.plan(model, ["h.1"], preserve_rng_state=False), x, loss=models.loss, labels=y)
        self.assertFalse(result)
        self.assertIn("the gradient of h.0", result.what)
        self.assertGreater(result.difference, 0)
        self.assertIn("differs by up to", str(result))

    def test_check_finds_buffers(self):
        model, (x, y) = models.Counts().train(), models.batch()
        plan = models.plan(model, ["outer"])
        result = check(model, plan, x, loss=models.loss, labels=y, hooks="allow")
        self.assertEqual((result.what, result.difference), ("the buffer inner.ran", 1.0))
        self.assertEqual(model.inner.ran.item(), 0)

    def test_check_says_the_largest_difference(self):
        model, (x, y) = models.Net(p=0.5).train(), models.batch()
        plan = models.plan(model, ["h.1"], preserve_rng_state=False)
        result = check(model, plan, x, loss=models.loss, labels=y)
        torch.manual_seed(0)
        plain = step(model, x, y)
        torch.manual_seed(0)
        with apply(model, plan):
            planned = step(model, x, y)
        largest = {f"the gradient of {n}": (a - b).abs().max().item()
                   for (n, _), a, b in zip(model.named_parameters(), plain, planned)}
        self.assertAlmostEqual(result.difference, largest[result.what])

    def test_without_gradients(self):
        model, (x, _) = models.Net().train(), models.batch()
        with apply(model, models.plan(model, ["h.0"])), torch.no_grad():
            model(x)
            model.h[0](x)
            model.h[0](x)

    def test_random_numbers_are_kept_by_default(self):
        plan = models.plan(models.Net(), ["h.0"])
        del plan["preserve_rng_state"]
        self.assertTrue(Plan.load(plan).preserve_rng_state)

    def test_statistics_move_once(self):
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
            for (name, a), (_, b) in zip(model.named_buffers(), other.named_buffers()):
                self.assertTrue(torch.equal(a, b), name)
            self.assertEqual(model.h[0].norm.num_batches_tracked.item(), 3)
            self.assertEqual(model.h[0].norm.momentum, momentum)

    def test_nothing_changes_but_forward(self):
        model, (x, y) = models.Net().train(), models.batch()
        names = [n for n, _ in model.named_modules()]
        seen = []
        model.h[0].register_forward_hook(lambda *_: seen.append(1))
        applied = apply(model, models.plan(model, ["h.0"]))
        self.assertEqual([n for n, _ in model.named_modules()], names)
        self.assertEqual(set(model.state_dict()), set(models.Net().state_dict()))
        self.assertIsInstance(model.h[0], models.Block)
        step(model, x, y)
        self.assertEqual(seen, [1], "a hook of the module itself runs once")
        applied.remove()
        applied.remove()
        self.assertNotIn("forward", model.h[0].__dict__)
        model.h[0]._forward_hooks.clear()
        pickle.loads(pickle.dumps(model))

    def test_own_forward_comes_back(self):
        model, (x, y) = models.Net().train(), models.batch()
        runs(model.h[0])
        own = model.h[0].up.forward
        model.h[0].forward = model.h[0].forward
        mine = model.h[0].forward
        with apply(model, models.plan(model, ["h.0"])):
            step(model, x, y)
        self.assertIs(model.h[0].forward, mine)
        self.assertIs(model.h[0].up.forward, own)

    def test_without_gradients_nothing_runs_again(self):
        model, (x, _) = models.Net().train(), models.batch()
        count = runs(model.h[0])
        with apply(model, models.plan(model, ["h.0"])), torch.no_grad():
            for _ in range(3):
                model(x)
        self.assertEqual(count[0], 3)

    def test_tuples_dicts_and_keywords(self):
        x, y = models.batch()
        for form in ("tuple", "dict"):
            model = models.UsesPair(form).train()
            self.assertTrue(check(model, models.plan(model, ["inner"]), x, loss=models.loss, labels=y), form)
            count = runs(model.inner)
            with apply(model, models.plan(model, ["inner"])):
                step(model, x, y)
            self.assertEqual(count[0], 2, form)

    def test_autocast(self):
        model, (x, y) = models.Net().train(), models.batch()

        def loss(out, labels):
            return models.loss(out.float(), labels)

        with torch.autocast("cpu", dtype=torch.bfloat16):
            self.assertTrue(check(model, models.plan(model, ["h.0", "h.1"]), x, loss=loss, labels=y))

    def test_shared_parameters(self):
        model, (x, y) = models.Net().train(), models.batch()
        model.h[1].up.weight = model.h[0].up.weight
        names = models.plan(model, ["h.0", "h.1"])
        names["parameters"]["h.1.up.weight"] = [32, 16]
        self.assertTrue(check(model, names, x, loss=models.loss, labels=y))

    def test_memory_falls(self):
        model, (x, y) = models.Net(blocks=8).train(), models.batch()
        x, y = x.repeat(200, 1), y.repeat(200)

        def once():
            step(model, x, y)

        plain = measure(once, show=False)
        with apply(model, models.plan(model, [f"h.{i}" for i in range(8)]), sizes="ignore"):
            planned = measure(once, show=False)
        self.assertLess(planned.peak_bytes, 0.6 * plain.peak_bytes)
        self.assertEqual(planned.device, "cpu")
        self.assertIn("MiB", str(planned))


class TestRefused(unittest.TestCase):
    """Every refusal names what is wrong, and leaves the model as it was."""

    def refused(self, model, plan, *texts, **options):
        before = [dict(m.__dict__) for m in model.modules()]
        with self.assertRaises(PlanError) as caught:
            apply(model, plan, **options)
        for text in texts:
            self.assertIn(text, str(caught.exception))
        for m, old in zip(model.modules(), before):
            self.assertEqual(set(m.__dict__), set(old))
            self.assertNotIn("forward", m.__dict__)
            self.assertEqual(len(m._forward_pre_hooks), len(old["_forward_pre_hooks"]))

    def test_no_such_module(self):
        model = models.Net().train()
        self.refused(model, models.plan(model, ["h.0", "h.7"]), "'h.7'", "does not have")
        self.refused(model, models.plan(model, ["h.0", "x.up"]), "it has h.0.up")

    def test_another_model(self):
        model = models.Net().train()
        p = models.plan(model, ["h.0"])
        p["parameters"]["tail.weight"] = [3]
        self.refused(model, p, "a parameter tail.weight", "does not have")
        p = models.plan(model, ["h.0"])
        p["parameters"]["head.weight"] = [5, 17]
        self.refused(model, p, "head.weight", "(5, 17)", "(5, 16)")

    def test_frozen(self):
        model = models.Net().train()
        p = models.plan(model, ["h.0"])
        model.h[0].up.weight.requires_grad_(False)
        self.refused(model, p, "h.0.up.weight", "frozen")

    def test_evaluation(self):
        model = models.Net().train()
        model.h[1].eval()
        self.refused(model, models.plan(model, ["h.0", "h.1"]), "'h.1'", "evaluation mode")

    def test_hooks_inside(self):
        model, (x, y) = models.Net().train(), models.batch()
        seen = []
        hook = model.h[0].act.register_forward_hook(lambda *_: seen.append(1))
        with self.assertRaisesRegex(PlanError, "h.0.act"):
            apply(model, models.plan(model, ["h.0"]))
        with apply(model, models.plan(model, ["h.0"]), hooks="allow"):
            step(model, x, y)
        self.assertEqual(len(seen), 2)
        hook.remove()

    def test_twice(self):
        model = models.Net().train()
        with apply(model, models.plan(model, ["h.0"])):
            with self.assertRaisesRegex(PlanError, "'h.0'.*another plan"):
                apply(model, models.plan(model, ["h.0"]))

    def test_two_names(self):
        model = models.Net().train()
        model.again = model.h[0]
        self.refused(model, models.plan(model, ["h.0"]), "'h.0'", "again")

    def test_nested(self):
        names = ["h.0", "h.0.up", "h.1.drop", "h.1"]
        for options in ({}, {"p": 0.3, "norm": True}):
            model, (x, y) = models.Net(**options).train(), models.batch()
            result = check(model, models.plan(model, names, nested=True), x, loss=models.loss, labels=y)
            self.assertTrue(result, str(result))
        count = runs(model.h[0])
        with apply(model, models.plan(model, names, nested=True)):
            for i in range(2):
                step(model, x, y)
                self.assertEqual(count[0], 3 * (i + 1), "forward, with the block, and by itself")

    def test_nested_elsewhere(self):
        model = models.Net().train()
        here = torch.__version__
        other = "1.13.1" if hasattr(torch.utils.checkpoint, "_CheckpointFrame") else "2.1.0+cpu"
        self.refused(model, models.plan(model, ["h.0", "h.0.up"], nested=True, torch=other), other, here)
        for more in ({"nested": False, "torch": other}, {"nested": True, "torch": here}, {"nested": True, "torch": ""},
                     {"nested": True, "torch": "unknown"}, {"nested": True, "torch": "2.1.2" if other < "2" else "2.0.1"}):
            apply(model, models.plan(model, ["h.0"], **more)).remove()

    def test_script(self):
        model = models.Net().train()
        model.h[0] = torch.jit.script(nn.Linear(16, 16))
        with self.assertRaisesRegex(PlanError, "'h.0'.*ScriptModule"):
            apply(model, models.plan(model, ["h.0"]))
        with self.assertRaisesRegex(PlanError, "ScriptModule"):
            apply(torch.jit.script(nn.Sequential(nn.Linear(2, 2))), models.plan(nn.Linear(2, 2), []))

    def test_wrapped_models(self):
        model = models.Net().train()
        with self.assertRaisesRegex(PlanError, "DataParallel"):
            apply(nn.DataParallel(model), models.plan(model, ["h.0"]))

    def test_distributed(self):
        class DistributedDataParallel(nn.Module):  # by its name: the real one needs a group of processes
            def __init__(self, module):
                super().__init__()
                self.module = module

        model = models.Net().train()
        with apply(DistributedDataParallel(model), models.plan(model, ["h.0"])) as applied:
            self.assertEqual(applied.modules, ("h.0",))
            self.assertIn("forward", model.h[0].__dict__)

    def test_called_twice(self):
        model, (x, y) = models.Twice().train(), models.batch()
        with apply(model, models.plan(model, ["block"])):
            with self.assertRaisesRegex(PlanError, "'block' is called 2 times"):
                model(x)
        with apply(model, models.plan(model, ["block"], calls={"block": 2})):
            model(x).sum().backward()
            model(x)

    def test_larger_inputs(self):
        model, (x, _) = models.Net().train(), models.batch()
        with apply(model, models.plan(model, ["h.0"])):
            model(x[:4])
            with self.assertRaisesRegex(PlanError, r"\(24, 16\).*\(12, 16\)"):
                model(x.repeat(2, 1))
        with apply(model, models.plan(model, ["h.0"]), sizes="ignore"):
            model(x.repeat(2, 1))

    def test_a_copy_has_its_own_weights(self):
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
                self.assertTrue(all(torch.equal(a, b) for a, b in zip(before, after)))
                self.assertEqual([c[0] for c in counts], [6, 3, 6], "the copy is under the plan")

    def test_larger_keyword_inputs(self):
        if not _KEYWORDS:
            return  # torch before 2.0: hooks see no keyword arguments
        model, (x, y) = models.Net().train(), models.batch()
        with apply(model, models.plan(model, ["h.0"])):
            model(x=x)
            with self.assertRaisesRegex(PlanError, "an input of the model is"):
                model(x=torch.cat([x, x]))

    def test_caches_are_off(self):
        model, (x, y) = models.Net().train(), models.batch()
        model.config, model.h[1].config = models.Config(True), models.Config(False)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with apply(model, models.plan(model, ["h.0"])):
                self.assertEqual((model.config.use_cache, model.h[1].config.use_cache), (False, False))
            self.assertEqual((model.config.use_cache, model.h[1].config.use_cache), (True, False))
            with apply(model, models.plan(model, [])):
                self.assertTrue(model.config.use_cache, "nothing runs again")
        self.assertEqual([str(w.message)[:30] for w in caught], ["config.use_cache is off under "])

    def test_compiled(self):
        if not hasattr(torch, "compiler") or not hasattr(torch.compiler, "is_compiling"):
            return  # torch before 2.1
        model, (x, y) = models.Net().train(), models.batch()
        plain = step(model, x, y)
        with apply(model, models.plan(model, ["h.0", "h.2"])):
            explained = torch._dynamo.explain(model)(x)
            self.assertEqual(explained.graph_break_count, 0, explained.break_reasons)
            planned = step(torch.compile(model, backend="aot_eager"), x, y)
        self.assertTrue(all(torch.allclose(a, b) for a, b in zip(plain, planned)))

    def test_in_place(self):
        model, (x, _) = models.InPlace().train(), models.batch()
        with apply(model, models.plan(model, ["inner"])):
            with self.assertRaisesRegex(PlanError, "'inner' changes its input in place"):
                model(x)

    def test_options(self):
        model = models.Net().train()
        with self.assertRaisesRegex(ValueError, "sizes='x'"):
            apply(model, models.plan(model, []), sizes="x")
        with self.assertRaisesRegex(ValueError, "hooks='y'"):
            apply(model, models.plan(model, []), hooks="y")


class TestPlans(unittest.TestCase):
    def test_files(self):
        model = models.Net()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plan.json")
            for text, message in (
                ("", "wanted a plan"),
                ("[]", "is no plan of modules"),
                ('{"format": "other"}', "is no plan of modules"),
                ('{"format": "memopt-modules", "version": 9}', "version 9"),
                ('{"format": "memopt-modules", "version": 1}', "damaged"),
                ('{"format": "memopt-modules", "version": 1, "modules": 3}', "damaged"),
            ):
                with open(path, "w", encoding="utf-8") as f:
                    f.write(text)
                with self.assertRaisesRegex(PlanError, message):
                    Plan.load(path)
            with open(path, "w", encoding="utf-8") as f:
                json.dump(models.plan(model, ["h.0"]), f)
            plan = Plan.load(path)
            self.assertEqual(plan.modules, ("h.0",))
            self.assertIs(Plan.load(plan), plan)
            with self.assertRaises(FileNotFoundError):
                Plan.load(os.path.join(folder, "none"))

    def test_selective(self):
        if hasattr(torch.utils.checkpoint, "CheckpointPolicy"):
            self.skipTest("this torch has selective checkpointing")
        with self.assertRaisesRegex(RuntimeError, "torch 2.4"):
            selective_policy(models.plan(models.Net(), ["h.0"]))


if __name__ == "__main__":
    unittest.main()
