package check_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// mutant makes a plan wrong, and returns false where it has no place for that. It may draw.
type mutant struct {
	kind  string // of the first fault
	about string
	make  func(*rand.Rand, *plan) bool
}

// pick draws one of the steps that fit.
func pick(rng *rand.Rand, steps []object, fits func(i int, verb string, id any) bool) (int, bool) {
	var all []int
	for i, s := range steps {
		if v, id := verb(s); fits(i, v, id) {
			all = append(all, i)
		}
	}
	if len(all) == 0 {
		return 0, false
	}
	return all[rng.IntN(len(all))], true
}

// behind finds the next step behind one that fits; -1: there is none.
func behind(steps []object, from int, fits func(verb string, id any) bool) int {
	for i := from + 1; i < len(steps); i++ {
		if fits(verb(steps[i])) {
			return i
		}
	}
	return -1
}

// move puts the step at one place before that at another.
func move(steps []object, from, to int) []object {
	s := steps[from]
	steps = slices.Delete(slices.Clone(steps), from, from+1)
	if to > from {
		to--
	}
	return slices.Insert(steps, to, s)
}

// edited makes a mutant of one that edits the steps; nil: no place.
func edited(edit func(rng *rand.Rand, s *shape, steps []object) []object) func(*rand.Rand, *plan) bool {
	return func(rng *rand.Rand, p *plan) bool {
		steps := edit(rng, shapeOf(p.instance), p.steps())
		if steps == nil {
			return false
		}
		p.set(steps)
		return true
	}
}

// claim makes a mutant of one that changes a number of a plan.
func claim(name string, change func(x float64) float64) func(*rand.Rand, *plan) bool {
	return func(_ *rand.Rand, p *plan) bool {
		x, ok := p.answer[name].(float64)
		if ok {
			p.answer[name] = change(x)
		}
		return ok && p.answer[name] != x
	}
}

// waitBehind finds a copy of one kind whose wait is the only one for copies of that kind before a step that the
// copy must have ended for, and returns the places of both.
func waitBehind(rng *rand.Rand, steps []object, kind string) (wait, until int, ok bool) {
	at, ok := pick(rng, steps, func(i int, v string, id any) bool {
		if v != kind {
			return false
		}
		w := behind(steps, i, func(v string, of any) bool { return v == "wait" && of == id })
		queued := 0 // copies of that kind among the steps up to the next wait
		last := behind(steps, w, func(v string, of any) bool { return v == "wait" })
		if last < 0 {
			last = len(steps) - 1
		}
		for _, s := range steps[i : last+1] {
			if v, _ := verb(s); v == kind {
				queued++
			}
		}
		return queued == 1
	})
	if !ok {
		return 0, 0, false
	}
	_, u := verb(steps[at])
	return behind(steps, at, func(v string, of any) bool { return v == "wait" && of == u }), at, true
}

func readers(s *shape, u any) func(verb string, id any) bool {
	return func(v string, id any) bool { return v == "compute" && slices.Contains(s.inputs[id], u) }
}

var mutants = []mutant{
	{"freed", "a value goes before its last reader", edited(func(rng *rand.Rand, s *shape, steps []object) []object {
		i, ok := pick(rng, steps, func(i int, v string, id any) bool {
			return v == "free" && len(s.views[id]) == 0 && i > 0 && readers(s, id)(verb(steps[i-1]))
		})
		if !ok {
			return nil
		}
		return move(steps, i, i-1)
	})},
	{"view-of-freed", "a base goes before its view", edited(func(rng *rand.Rand, s *shape, steps []object) []object {
		i, ok := pick(rng, steps, func(_ int, v string, id any) bool { return v == "free" && s.base[id] != nil })
		if !ok {
			return nil
		}
		_, u := verb(steps[i])
		base := behind(steps, i, func(v string, id any) bool { return v == "free" && id == s.base[u] })
		if base < 0 || s.keep[s.base[u]] {
			return nil
		}
		return move(steps, base, i)
	})},
	{"coming-in", "no wait behind a reload", edited(func(rng *rand.Rand, _ *shape, steps []object) []object {
		wait, _, ok := waitBehind(rng, steps, "reload")
		if !ok {
			return nil
		}
		return slices.Delete(steps, wait, wait+1)
	})},
	{"coming-in", "a reader before the wait", edited(func(rng *rand.Rand, s *shape, steps []object) []object {
		wait, at, ok := waitBehind(rng, steps, "reload")
		if !ok {
			return nil
		}
		_, u := verb(steps[at])
		reader := behind(steps, wait, readers(s, u))
		if reader < 0 {
			return nil
		}
		return move(steps, wait, reader+1)
	})},
	{"coming-in", "an offload of a value that is coming in", edited(
		func(rng *rand.Rand, _ *shape, steps []object) []object {
			_, at, ok := waitBehind(rng, steps, "reload")
			if !ok {
				return nil
			}
			_, u := verb(steps[at])
			return slices.Insert(steps, at+1, step("offload", u))
		})},
	{"coming-in", "a free of a value that is coming in", edited(
		func(rng *rand.Rand, _ *shape, steps []object) []object {
			_, at, ok := waitBehind(rng, steps, "reload")
			if !ok {
				return nil
			}
			_, u := verb(steps[at])
			return slices.Insert(steps, at+1, step("free", u))
		})},
	{"going-out", "no wait behind an offload", edited(func(rng *rand.Rand, _ *shape, steps []object) []object {
		wait, _, ok := waitBehind(rng, steps, "offload")
		if !ok {
			return nil
		}
		return slices.Delete(steps, wait, wait+1)
	})},
	{"going-out", "a free before the wait", edited(func(rng *rand.Rand, _ *shape, steps []object) []object {
		wait, _, ok := waitBehind(rng, steps, "offload")
		if !ok {
			return nil
		}
		_, u := verb(steps[wait])
		return move(steps, behind(steps, wait, func(v string, of any) bool { return v == "free" && of == u }), wait)
	})},
	{"reload-live", "a reload of a live value", edited(func(rng *rand.Rand, _ *shape, steps []object) []object {
		i, ok := pick(rng, steps, func(i int, v string, _ any) bool { return v == "reload" })
		if !ok {
			return nil
		}
		_, u := verb(steps[i])
		for at := i; at >= 0; at-- {
			if v, of := verb(steps[at]); v == "free" && of == u {
				return move(steps, i, at)
			}
		}
		return nil
	})},
	{"reload-live", "a value is reloaded twice", edited(func(rng *rand.Rand, _ *shape, steps []object) []object {
		i, ok := pick(rng, steps, func(i int, v string, _ any) bool { return v == "reload" })
		if !ok {
			return nil
		}
		return slices.Insert(steps, i, steps[i])
	})},
	{"no-copy", "an offload is left out", edited(func(rng *rand.Rand, _ *shape, steps []object) []object {
		i, ok := pick(rng, steps, func(i int, v string, of any) bool {
			return v == "offload" && !slices.ContainsFunc(steps[:i], func(s object) bool {
				v, id := verb(s)
				return v == "offload" && id == of
			})
		})
		if !ok {
			return nil
		}
		return slices.Delete(steps, i, i+1)
	})},
	{"no-host-copy", "an offload and its wait are left out", edited(
		func(rng *rand.Rand, _ *shape, steps []object) []object {
			i, ok := pick(rng, steps, func(i int, v string, of any) bool {
				return v == "offload" && !slices.ContainsFunc(steps[:i], func(s object) bool {
					v, id := verb(s)
					return v == "offload" && id == of
				})
			})
			if !ok {
				return nil
			}
			_, u := verb(steps[i])
			wait := behind(steps, i, func(v string, of any) bool { return v == "wait" && of == u })
			steps = slices.Delete(steps, wait, wait+1)
			return slices.Delete(steps, i, i+1)
		})},
	{"no-host-copy", "a reload of a value that was computed anew since", edited(
		func(rng *rand.Rand, s *shape, steps []object) []object {
			i, ok := pick(rng, steps, func(_ int, v string, u any) bool {
				n := s.node[s.maker[u]]
				return v == "reload" && n["recompute"] != false && len(s.inputs[s.maker[u]]) == 0 &&
					len(s.outputs[s.maker[u]]) == 1
			})
			if !ok {
				return nil
			}
			_, u := verb(steps[i])
			return slices.Insert(steps, i, step("compute", s.maker[u]), step("free", u))
		})},
	{"not-reloaded", "a reload and its wait are left out", edited(
		func(rng *rand.Rand, s *shape, steps []object) []object {
			i, ok := pick(rng, steps, func(_ int, v string, _ any) bool { return v == "reload" })
			if !ok {
				return nil
			}
			_, u := verb(steps[i])
			wait := behind(steps, i, func(v string, of any) bool { return v == "wait" && of == u })
			steps = slices.Delete(steps, wait, wait+1)
			return slices.Delete(steps, i, i+1)
		})},
	{"other-seed", "a random node has another seed when it is replayed", edited(
		func(rng *rand.Rand, _ *shape, steps []object) []object {
			runs := map[any]int{}
			i, ok := pick(rng, steps, func(_ int, v string, id any) bool {
				if v == "compute" {
					runs[id]++
				}
				return v == "compute" && runs[id] == 2
			})
			if !ok {
				return nil
			}
			_, again := verb(steps[i])
			for k, s := range steps {
				if v, id := verb(s); v == "compute" && id == again {
					steps[k] = object{"compute": id, "seed": 7.0}
				}
			}
			steps[i] = object{"compute": again, "seed": 8.0}
			return steps
		})},
	{"computed-twice", "a collective is computed twice", func(rng *rand.Rand, p *plan) bool {
		runs, s := map[any]int{}, shapeOf(p.instance)
		i, ok := pick(rng, p.steps(), func(_ int, v string, id any) bool {
			if v == "compute" {
				runs[id]++
			}
			return v == "compute" && runs[id] == 2
		})
		if ok {
			_, id := verb(p.steps()[i])
			s.node[id]["recompute"] = false
		}
		return ok
	}},
	{"computed-live", "a compute stands twice", edited(func(rng *rand.Rand, s *shape, steps []object) []object {
		i, ok := pick(rng, steps, func(i int, v string, id any) bool {
			return v == "compute" && s.node[id]["recompute"] != false &&
				!slices.ContainsFunc(s.outputs[id], func(u any) bool { return s.keep[u] })
		})
		if !ok {
			return nil
		}
		return slices.Insert(steps, i, steps[i])
	})},
	{"computed-live", "a kept value comes again", edited(func(rng *rand.Rand, s *shape, steps []object) []object {
		i, ok := pick(rng, steps, func(i int, v string, id any) bool {
			return v == "compute" && s.node[id]["recompute"] != false &&
				!slices.ContainsFunc(s.outputs[id], func(u any) bool { return !s.keep[u] })
		})
		if !ok {
			return nil
		}
		return slices.Insert(steps, i, steps[i])
	})},
	{"freed-twice", "a free stands twice", edited(func(rng *rand.Rand, _ *shape, steps []object) []object {
		i, ok := pick(rng, steps, func(_ int, v string, _ any) bool { return v == "free" })
		if !ok {
			return nil
		}
		return slices.Insert(steps, i, steps[i])
	})},
	{"freed-kept", "a kept value is freed", edited(func(rng *rand.Rand, s *shape, steps []object) []object {
		for _, u := range keys(s.keep) {
			if s.keep[u] && len(s.views[u]) == 0 {
				return append(steps, step("free", u))
			}
		}
		return nil
	})},
	{"not-made", "a reader comes before its input", edited(func(rng *rand.Rand, s *shape, steps []object) []object {
		i, ok := pick(rng, steps, func(i int, v string, id any) bool {
			return v == "compute" && len(s.inputs[id]) == 1 && !slices.ContainsFunc(steps[:i], func(s object) bool {
				v, of := verb(s)
				return v == "compute" && of == id
			})
		})
		if !ok {
			return nil
		}
		_, id := verb(steps[i])
		maker := s.maker[s.inputs[id][0]]
		return move(steps, i, behind(steps, -1, func(v string, of any) bool { return v == "compute" && of == maker }))
	})},
	{"unknown", "a step names no value", edited(func(rng *rand.Rand, _ *shape, steps []object) []object {
		steps[rng.IntN(len(steps))] = step("free", "no such value")
		return steps
	})},
	{"unknown", "a step has no verb", edited(func(rng *rand.Rand, _ *shape, steps []object) []object {
		steps[rng.IntN(len(steps))] = object{"copy": "n0"}
		return steps
	})},
	{"never-computed", "a node is left out", edited(func(rng *rand.Rand, s *shape, steps []object) []object {
		last := s.order[len(s.order)-1] // no node reads it
		return slices.DeleteFunc(steps, func(st object) bool {
			v, id := verb(st)
			return v == "compute" && id == last || v != "compute" && slices.Contains(s.outputs[last], id)
		})
	})},
	{"not-movable", "the instance forbids to move a value", func(rng *rand.Rand, p *plan) bool {
		s := shapeOf(p.instance)
		i, ok := pick(rng, p.steps(), func(_ int, v string, _ any) bool { return v == "offload" })
		if ok {
			_, u := verb(p.steps()[i])
			s.node[s.maker[u]]["offload"] = false
		}
		return ok
	}},
	{"not-movable", "a view is moved", edited(func(rng *rand.Rand, s *shape, steps []object) []object {
		i, ok := pick(rng, steps, func(_ int, v string, id any) bool { return v == "free" && s.base[id] != nil })
		if !ok {
			return nil
		}
		_, u := verb(steps[i])
		return slices.Insert(steps, i, step("offload", u), step("wait", u))
	})},
	{"not-movable", "values are moved without a link", func(_ *rand.Rand, p *plan) bool {
		_, ok := p.answer["link"]
		delete(p.answer, "link")
		return ok
	}},
	{"wrong-link", "the link has no rate", func(_ *rand.Rand, p *plan) bool {
		l, ok := p.answer["link"].(object)
		if ok {
			l["bytes_per_second"] = 0.0
		}
		return ok
	}},
	{"wrong-order", "first computes leave the order that they are said to keep", func(_ *rand.Rand, p *plan) bool {
		first, last, in := map[any]bool{}, -1, true
		s := shapeOf(p.instance)
		for _, st := range p.steps() {
			if v, id := verb(st); v == "compute" && !first[id] && s.base[append(s.outputs[id], 0)[0]] == nil {
				at := slices.Index(s.order, id)
				first[id], in, last = true, in && at > last, at
			}
		}
		p.answer["in_order"] = true
		return !in
	}},
	{"wrong-order", "first computes leave the order that the instance gives", func(_ *rand.Rand, p *plan) bool {
		given := p.instance["order"]
		p.instance["order"] = "given"
		return given == nil && p.answer["in_order"] == false && len(p.check().Faults) > 0
	}},
	{"wrong-peak", "the peak is a byte too low", claim("peak", func(x float64) float64 { return x - 1 })},
	{"wrong-peak", "the peak is a byte too high", claim("peak", func(x float64) float64 { return x + 1 })},
	{"wrong-peak", "a free is left out", func(rng *rand.Rand, p *plan) bool {
		steps, before := p.steps(), p.check().Peak
		for i := range steps {
			if v, _ := verb(steps[i]); v != "free" {
				continue
			}
			p.set(slices.Delete(slices.Clone(steps), i, i+1))
			if r := p.check(); r.Peak > before && len(r.Proved) > 0 {
				return true
			}
		}
		return false
	}},
	{"wrong-host-peak", "the host's peak is too low", claim("host_peak", func(x float64) float64 { return x - 1 })},
	{"wrong-moved", "more bytes move to the host", claim("moved_bytes", func(x float64) float64 { return x + 1 })},
	{"over-budget", "the host's budget is too low", func(_ *rand.Rand, p *plan) bool {
		peak, _ := p.answer["host_peak"].(float64)
		p.answer["host_budget"] = peak - 1
		return peak > 0
	}},
	{"wrong-cost", "the cost is too low", claim("cost", func(x float64) float64 { return x * (1 - 1e-6) })},
	{"wrong-base-cost", "the cost of every node once is too high", claim("base_cost", func(x float64) float64 {
		return x * 1.001
	})},
	{"wrong-makespan", "the makespan is too low", claim("makespan", func(x float64) float64 { return x * 0.999 })},
	{"wrong-makespan", "waits are not counted", func(_ *rand.Rand, p *plan) bool {
		made := p.answer["makespan"] != nil && p.answer["makespan"].(float64) > p.answer["cost"].(float64)*1.0001
		p.answer["makespan"] = p.answer["cost"]
		return made
	}},
	{"wrong-overhead", "the overhead is too low", claim("overhead", func(x float64) float64 { return x - 1e-3 })},
	{"wrong-bound", "the bound is above the cost", func(_ *rand.Rand, p *plan) bool {
		p.answer["cost_lower_bound"] = p.answer["cost"].(float64) * 9
		return true
	}},
	{"wrong-bound", "the bound is below the cost of every node once", claim("cost_lower_bound",
		func(x float64) float64 { return x / 9 })},
	{"wrong-bound", "a plan above its bound says that it is optimal", func(_ *rand.Rand, p *plan) bool {
		p.answer["optimal"], p.answer["cost_lower_bound"] = true, p.answer["base_cost"]
		r := p.check()
		return r.Overhead > 0.001 && p.answer["cost_lower_bound"] != nil
	}},
	{"wrong-bound", "the bound of the peak is above the peak", func(_ *rand.Rand, p *plan) bool {
		p.answer["peak_lower_bound"] = p.answer["peak"].(float64) + 1
		return true
	}},
}

// TestFaults: every fault is found, and its kind comes first.
func TestFaults(t *testing.T) {
	valid := plans(t, 2, 150)
	made := 0
	for k, m := range mutants {
		rng := rand.New(rand.NewPCG(uint64(k), 3))
		count := 0
		for _, p := range valid {
			c := p.clone()
			if count == 6 || !m.make(rng, c) {
				continue
			}
			count++
			r := c.check()
			require.False(t, r.Valid, "%s: %s\n%s\n%s", m.about, p.name, text(c.instance), text(c.answer))
			require.Equal(t, m.kind, r.Faults[0].Kind, "%s: %s: %v\n%s\n%s", m.about, p.name, r.Faults,
				text(c.instance), text(c.answer))
			require.NotContains(t, r.Faults[0].Message, "%!")
		}
		require.Positive(t, count, "%s: no plan has a place for it", m.about)
		made += count
	}
	t.Logf("%d kinds of mutants, %d faults", len(mutants), made)
	require.GreaterOrEqual(t, made, 50)
}
