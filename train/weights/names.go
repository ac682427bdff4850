package weights

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"memopt/graph"
)

// wrappers are the names of modules that wrap another one: DistributedDataParallel and DataParallel,
// torch.compile, FSDP, and its activation checkpointing.
var wrappers = []string{"module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}

// plain returns a name without wrappers.
func plain(name string) string {
	parts := strings.Split(name, ".")
	kept := slices.DeleteFunc(slices.Clone(parts[:len(parts)-1]), func(part string) bool {
		return slices.Contains(wrappers, part)
	})
	return strings.Join(append(kept, parts[len(parts)-1]), ".")
}

// prefix is an addition to names: to all of the file's, or to all of the model's; "" for no addition.
type prefix struct{ ofTensors, ofTargets string }

// String returns the prefix; that of the model's names after "-".
func (p prefix) String() string {
	if p.ofTargets != "" {
		return "-" + p.ofTargets
	}
	return p.ofTensors
}

// tensor returns the form of a tensor's name for comparisons.
func (p prefix) tensor(name string) string {
	name = plain(name)
	if rest, ok := strings.CutPrefix(name, p.ofTensors); ok {
		return rest
	}
	return "\x00" + name // equal to no target's name
}

// target returns the form of a target's name for comparisons.
func (p prefix) target(name string) string {
	name = plain(name)
	if rest, ok := strings.CutPrefix(name, p.ofTargets); ok {
		return rest
	}
	return "\x01" + name // equal to no tensor's name
}

// choosePrefix returns the prefix that gives the most parameters a tensor of their shape. No other
// prefix may give as many.
func (s *search) choosePrefix() (prefix, error) {
	counts := map[prefix]int{}
	byLast := map[string][]int{} // tensors by the last part of their names
	for i, e := range s.entries {
		name := plain(e.Name)
		last := name[strings.LastIndexByte(name, '.')+1:]
		byLast[last] = append(byLast[last], i)
	}
	for _, t := range s.targets {
		if !t.required {
			continue
		}
		name := plain(t.name)
		for _, i := range byLast[name[strings.LastIndexByte(name, '.')+1:]] {
			e := s.entries[i]
			p, ok := difference(plain(e.Name), name)
			if ok && fits(e, t.dtype, t.shape) == nil {
				counts[p]++
			}
		}
	}
	type counted struct {
		prefix
		n int
	}
	var list []counted
	for p, n := range counts {
		list = append(list, counted{p, n})
	}
	order := func(a, b counted) int {
		return cmp.Or(-cmp.Compare(a.n, b.n), cmp.Compare(a.ofTensors, b.ofTensors),
			cmp.Compare(a.ofTargets, b.ofTargets))
	}
	sort.Slice(list, func(i, k int) bool { return order(list[i], list[k]) < 0 })
	switch {
	case len(list) == 0:
		return prefix{}, nil
	case len(list) > 1 && list[0].n == list[1].n && list[0].prefix != prefix{} && list[1].prefix != prefix{}:
		return prefix{}, fmt.Errorf("%d tensors fit by the prefix %q and as many by %q: remove one set from the file",
			list[0].n, list[0].String(), list[1].String())
	case len(list) > 1 && list[0].n == list[1].n && list[1].prefix == prefix{}:
		return prefix{}, nil
	}
	return list[0].prefix, nil
}

// difference returns the prefix that two names differ by.
func difference(tensor, target string) (prefix, bool) {
	if p, ok := strings.CutSuffix(tensor, target); ok && (p == "" || strings.HasSuffix(p, ".")) {
		return prefix{ofTensors: p}, true
	}
	if p, ok := strings.CutSuffix(target, tensor); ok && strings.HasSuffix(p, ".") {
		return prefix{ofTargets: p}, true
	}
	return prefix{}, false
}

// foldedPrefix begins the names that torch.onnx gives the transposes that it has folded for products.
const foldedPrefix = "onnx::MatMul_"

// folded finds tensors for the weights that torch.onnx has transposed, by the names of the nodes that
// read them.
func (s *search) folded(g *graph.Graph, p prefix, hows []How) error {
	taken := make([]bool, len(s.entries))
	for _, e := range s.found {
		if e != none {
			taken[e] = true
		}
	}
	byName := make(map[string]int, len(s.entries))
	for i, e := range s.entries {
		byName[p.tensor(e.Name)] = i
	}
	readers := readersOf(g, len(g.Values))
	for i, t := range s.targets {
		if s.found[i] != none || len(t.shape) != 2 || !strings.HasPrefix(t.name, foldedPrefix) {
			continue
		}
		for _, n := range readers[t.value] {
			module, ok := scope(n)
			if !ok {
				continue
			}
			e, ok := byName[p.target(module+".weight")]
			if !ok {
				continue
			}
			if taken[e] && s.found[i] != e {
				return fmt.Errorf("tensor %q could be parameter %q, which node %q reads, and another parameter: "+
					"give it to one of them by its exact name", s.entries[e].Name, t.name, n.Name)
			}
			back := []int{t.shape[1], t.shape[0]}
			if err := fits(s.entries[e], t.dtype, back); err != nil {
				return fmt.Errorf("tensor %q, transposed, is parameter %q, which node %q reads, but %w",
					s.entries[e].Name, t.name, n.Name, err)
			}
			if s.found[i] != none && s.found[i] != e {
				return fmt.Errorf("tensors %q and %q could both be parameter %q, by the nodes that read it: "+
					"give one of them its exact name", s.entries[s.found[i]].Name, s.entries[e].Name, t.name)
			}
			s.found[i], taken[e], hows[i] = e, true, Folded
		}
	}
	return nil
}

// readersOf returns, by value, the nodes that read it as their second operand.
func readersOf(g *graph.Graph, values int) [][]*graph.Node {
	out := make([][]*graph.Node, values)
	for _, n := range g.Nodes {
		if len(n.Inputs) == 2 && n.Inputs[1] != graph.NoValue {
			out[n.Inputs[1]] = append(out[n.Inputs[1]], n)
		}
	}
	return out
}

// scope returns the name of a node's module in PyTorch: "net.0" of "/net/net.0/MatMul", since an
// exporter names a module in a container after both.
func scope(n *graph.Node) (string, bool) {
	parts := strings.Split(n.Name, "/")
	if len(parts) < 3 || parts[0] != "" {
		return "", false
	}
	var path []string
	for _, part := range parts[1 : len(parts)-1] {
		if k := len(path); k > 0 && strings.HasPrefix(part, path[k-1]+".") {
			path = path[:k-1]
		}
		path = append(path, part)
	}
	return strings.Join(path, "."), true
}
