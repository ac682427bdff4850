package graph

import (
	"fmt"
	"strings"
)

// functionKey identifies a model-local function.
type functionKey struct{ domain, name, overload string }

func keyOf(domain, name, overload string) functionKey {
	return functionKey{CanonicalDomain(domain), name, overload}
}

// callees lists the model-local functions that a graph calls, subgraphs included.
func callees(g *Graph, byKey map[functionKey]int, found func(int)) {
	for _, n := range g.Nodes {
		if i, ok := byKey[keyOf(n.Domain, n.Op, n.Rare().Overload)]; ok {
			found(i)
		}
		n.Subgraphs(func(_ string, sub *Graph) { callees(sub, byKey, found) })
	}
}

// CheckFunctions reports functions that are defined twice, or that call themselves, directly
// or through others; ONNX allows neither.
func CheckFunctions(m *Model) error {
	byKey := make(map[functionKey]int, len(m.Functions))
	for i, f := range m.Functions {
		k := keyOf(f.Domain, f.Name, f.Overload)
		if _, dup := byKey[k]; dup {
			return fmt.Errorf("function %q of domain %q is defined twice", f.Name, f.Domain)
		}
		byKey[k] = i
	}
	const walking, done = 1, 2
	state := make([]int, len(m.Functions))
	var chain []string
	var visit func(i int) error
	visit = func(i int) error {
		f := m.Functions[i]
		chain = append(chain, f.Name)
		if state[i] == walking {
			return fmt.Errorf("function %q calls itself: %s", f.Name, strings.Join(chain, " → "))
		}
		if state[i] == 0 {
			state[i] = walking
			var err error
			callees(f.Body, byKey, func(c int) {
				if err == nil {
					err = visit(c)
				}
			})
			if err != nil {
				return err
			}
			state[i] = done
		}
		chain = chain[:len(chain)-1]
		return nil
	}
	for i := range m.Functions {
		if err := visit(i); err != nil {
			return err
		}
	}
	return nil
}
