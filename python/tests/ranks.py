"""Two ranks with gloo: python ranks.py RANK FILE. test_callbacks.py runs it."""

import copy
import sys

import torch
from torch import distributed, nn
from torch.distributed.fsdp import fully_shard

import models
from memopt.torch import Plan, PlanError
from memopt.torch.callbacks import attach


def planner(model, batch, **options):
    """A plan that depends on the rank, so that ranks that plan by themselves are found out."""
    return Plan.load(models.plan(model, [f"h.{distributed.get_rank()}", "h.2"]))


def no_planner(model, batch, **options):
    raise PlanError("no choice of modules fits")


def gradients(model, batches):
    """Gradients of the mean of the batches' losses."""
    model.zero_grad()
    for x, y in batches:
        (models.loss(model(x), y) / len(batches)).backward()
    return {n.removeprefix("module."): p.grad for n, p in model.named_parameters()}


def same_on_all(rank, value):
    values = [None, None]
    distributed.all_gather_object(values, value)
    assert values[0] == values[1], (rank, values)


def data_parallel(rank, model):
    wanted = gradients(copy.deepcopy(model), [models.batch(0), models.batch(1)])
    net = nn.parallel.DistributedDataParallel(copy.deepcopy(model))
    said = []
    attached = attach(net, "60%", planner=planner, show=said.append)
    for _ in range(2):
        got = gradients(net, [models.batch(rank)])
        assert all(torch.allclose(wanted[n], got[n], atol=1e-6) for n in wanted)
    attached.remove()
    assert attached.plan.modules == ("h.0", "h.2")
    assert len(said) == (3 if rank == 0 else 0)


def sharded(rank, model):
    wanted = gradients(copy.deepcopy(model), [models.batch(0), models.batch(1)])
    plan = models.plan(model, ["h.0", "h.1", "h.2.up", "h.2.act"])
    net = copy.deepcopy(model)
    fully_shard(net.h[1].up)  # inside a module that runs again
    for block in net.h:
        fully_shard(block)
    fully_shard(net)
    try:
        attach(net, "60%")
    except PlanError as e:
        assert "sharded by fully_shard" in str(e)
    else:
        raise AssertionError("a sharded model was planned")
    attached = attach(net, plan, show=None)
    for _ in range(2):
        got = gradients(net, [models.batch(rank)])
        assert all(torch.allclose(wanted[n], got[n].full_tensor(), atol=1e-6) for n in wanted)
    attached.remove()
    assert attached.measured_bytes > 0


def failing(rank, model):
    attach(model, "1%", planner=no_planner, show=None)
    try:
        model(models.batch()[0])
    except PlanError as e:
        same_on_all(rank, str(e))
        assert str(e) == "no choice of modules fits"
    else:
        raise AssertionError("a step ran without its plan")


def main():
    rank, file = int(sys.argv[1]), sys.argv[2]
    distributed.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
    torch.manual_seed(0)
    model = models.Net().train()
    data_parallel(rank, model)
    sharded(rank, model)
    failing(rank, model)
    distributed.barrier()
    distributed.destroy_process_group()
    print("done")


if __name__ == "__main__":
    main()
