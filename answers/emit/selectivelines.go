package emit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"memopt/planner/moduleplan"
	"memopt/python/pytorch"
)

// text is the Python of a setting: a function apply for a script that has its model.
func (s *selection) text(a *Answer, x *setting) string {
	var b strings.Builder
	b.WriteString(a.header("#"))
	b.WriteString("# Its checkpoints keep the results of the operators below, by name and by number of the\n" +
		"# call, and run the rest again.\n")
	b.WriteString(policyHead)
	for _, g := range s.groups(x) {
		fmt.Fprintf(&b, "    (\n        {%s},\n        [\n", g.kept)
		for _, name := range g.names {
			fmt.Fprintf(&b, "            %s,\n", pytorch.PythonString(name))
		}
		b.WriteString("        ],\n    ),\n")
	}
	fmt.Fprintf(&b, policyTail, pytorch.PythonBool(s.p.Random(&moduleplan.Plan{Calls: s.calls(x)})))
	return b.String()
}

// group is modules that keep the same operators.
type group struct {
	kept  string
	names []string
}

// groups lists modules under checkpoints by the results that they keep, in order of execution.
func (s *selection) groups(x *setting) (out []group) {
	for i := range s.regions {
		if !x.on[i] {
			continue
		}
		text := keptText(&s.regions[i], x.kept)
		at := slices.IndexFunc(out, func(g group) bool { return g.kept == text })
		if at < 0 {
			at = len(out)
			out = append(out, group{kept: text})
		}
		out[at].names = append(out[at].names, s.name(s.regions[i].call))
	}
	return out
}

// keptText are the operators that a region keeps, as the items of a dict of Python.
func keptText(r *region, kept []bool) string {
	var ops []string
	calls := map[string][]string{}
	for _, it := range r.items {
		if !kept[it.step] {
			continue
		}
		if calls[it.name] == nil {
			ops = append(ops, it.name)
		}
		calls[it.name] = append(calls[it.name], strconv.Itoa(it.at))
	}
	var b strings.Builder
	for _, op := range ops {
		fmt.Fprintf(&b, "\n            %s: {%s},", pytorch.PythonString(op), strings.Join(calls[op], ", "))
	}
	if b.Len() > 0 {
		b.WriteString("\n        ")
	}
	return b.String()
}

const policyHead = `import collections
import functools

from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

REGIONS = [
`

const policyTail = `]


def contexts(kept):
    calls = collections.Counter()

    def policy(ctx, op, *args, **kwargs):
        key = (ctx.is_recompute, str(op))
        calls[key] += 1
        if calls[key] - 1 in kept.get(str(op), ()):
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def apply(model):
    for kept, names in REGIONS:
        options = {"context_fn": functools.partial(contexts, kept)} if kept else {}
        for name in names:
            module = model.get_submodule(name)
            module.forward = functools.partial(
                checkpoint, module.forward, use_reentrant=False, preserve_rng_state=%s, **options
            )
`
