package load

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"memopt"
	"memopt/cmd/memopt/internal/cli"
	"memopt/graph"
	"memopt/symbolic"
)

// inputDim matches the names that ORTModule gives the dims of inputs: input_ids_dim0. Which of the equal ones ONNX
// Runtime keeps differs from run to run.
var inputDim = regexp.MustCompile(`^(.+)_dim([0-9]+)$`)

// bindInputs binds the symbols that bindings by input stand for: all dims of an input (input_ids=4x128), the one
// dim of an input (labels=4), and an input's dim by ORTModule's name for it where the file calls it otherwise
// (labels_dim0=4 for labels [input_ids_dim0]). The error names a dim that is another number.
func bindInputs(a *cli.App, g *graph.Graph, list []cli.Binding, dims map[string]int64) error {
	shapes, symbols := map[string][]symbolic.Expr{}, map[string]bool{}
	for _, decls := range [][]graph.Decl{g.Inputs, g.Outputs, g.ValueInfo} {
		for _, d := range decls {
			for _, dim := range d.Type.Shape.Dims {
				for _, s := range dim.Symbols() {
					symbols[s] = true
				}
			}
		}
	}
	for _, d := range g.Inputs {
		shapes[g.ValueName(d.Value)] = d.Type.Shape.Dims
	}
	if a.ByInput == nil {
		a.ByInput = map[string]bool{}
	}
	given := map[string]int64{}
	for _, b := range list {
		if b.Shape == nil && !b.Ranged && symbols[b.Symbol] {
			given[b.Symbol] = b.Value
		}
	}
	var renamed []string
	for _, b := range list {
		dimsOf, sizes, from := shapes[b.Symbol], b.Shape, 0
		isInput := dimsOf != nil
		switch m := inputDim.FindStringSubmatch(b.Symbol); {
		case b.Ranged || b.Shape == nil && symbols[b.Symbol]:
			continue
		case b.Shape != nil && isInput && len(dimsOf) != len(sizes):
			return cli.Usage("--dim %s: input %q has %d dims", b.Text(), b.Symbol, len(dimsOf))
		case b.Shape == nil && len(dimsOf) == 1:
			sizes = []int64{b.Value}
		case b.Shape == nil && m != nil:
			axis, err := strconv.Atoi(m[2])
			if dimsOf = shapes[m[1]]; err != nil || axis >= len(dimsOf) {
				continue
			}
			sizes, from = []int64{b.Value}, axis
			renamed = append(renamed, fmt.Sprintf("%s is %v", b.Symbol, dimsOf[axis]))
		case !isInput:
			continue
		}
		delete(dims, b.Symbol)
		for k, n := range sizes {
			if err := bindDim(dimsOf[from+k], n, given, dims); err != nil {
				return cli.Usage("--dim %s: %w", b.Text(), err)
			}
		}
		a.ByInput[b.Text()] = true
	}
	if len(renamed) > 0 {
		a.Note("--dim: in this file %s", strings.Join(renamed, ", "))
	}
	return nil
}

// bindDim binds the symbol that a dim of an input is; given are the bindings so far, which must agree.
func bindDim(dim symbolic.Expr, n int64, given, dims map[string]int64) error {
	if is, ok := dim.Const(); ok && is != n {
		return fmt.Errorf("that dim is %d in the file", is)
	}
	s := dim.Symbols()
	if len(s) != 1 || !dim.Equal(symbolic.Sym(s[0])) {
		return nil
	}
	if is, bound := given[s[0]]; bound && is != n {
		return fmt.Errorf("that dim is %s, which another binding says is %d", s[0], is)
	}
	given[s[0]], dims[s[0]] = n, n
	return nil
}

// noInput lists the inputs that models have, with their dims.
func noInput(models []*memopt.Model) string {
	var have []string
	for _, m := range models {
		for _, d := range m.Graph.Inputs {
			v := &m.Graph.Values[d.Value]
			named := func(d symbolic.Expr) bool { return len(d.Symbols()) > 0 }
			if slices.ContainsFunc(v.Type.Shape.Dims, named) && !slices.Contains(have, v.Name) {
				have = append(have, v.Name)
			}
		}
	}
	if len(have) == 0 {
		return "no input has dims without a number"
	}
	return "there is no input of that name; those with symbols are " + strings.Join(have, ", ")
}
