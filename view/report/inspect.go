package report

import (
	"cmp"
	"io"
	"slices"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/symbolic"
)

// InspectSchema is the schema of the JSON that `memopt inspect -O json` prints.
const InspectSchema = "memopt.inspect/v1"

// Inspection is the input of Inspect.
type Inspection struct {
	Model    *graph.Model
	Types    *op.Result
	Dims     symbolic.Env
	SHA      string
	By       string         // op, node, layer or category
	Top      int            // how many groups; 0 means all
	Boundary *live.Boundary // nil for a graph without a backward half
	States   []live.State
	Order    graph.Order // nil likewise
	Backward []bool
	Program  *Program // of a program that a compiler scheduled; nil for a graph
}

// Program is the properties of a compiled program, as its file states them, and its memory in bytes.
type Program struct {
	Instructions int  `json:"instructions"`
	Computations int  `json:"computations"`
	Scheduled    bool `json:"scheduled"`
	// Partitions is among how many devices each run is divided; sizes are those of one of them, or of all together if
	// Whole.
	Partitions int64 `json:"partitions"`
	Whole      bool  `json:"whole"`
	Replicas   int64 `json:"replicas"`
	// Marked: names of operators say which steps are backward; else the fullest step begins the second half.
	Marked bool        `json:"marked"`
	Peak   ProgramPeak `json:"-"`
}

// ProgramPeak is the memory of a compiled program: arguments and results have theirs throughout.
type ProgramPeak struct {
	// Live is the peak: arguments, results that lie in none of them, and the temporaries at the fullest step.
	Live      int64  `json:"live_bytes"`
	Step      string `json:"step"`
	Arguments int64  `json:"argument_bytes"`
	Results   int64  `json:"result_bytes"` // without those that lie in arguments
	Donated   int64  `json:"donated_bytes"`
	Temporary int64  `json:"temporary_bytes"`
	Arena     *int64 `json:"arena_bytes"` // of the temporaries, packed
	// Host is the memory of the host at its fullest step, which Live does not count.
	Host int64 `json:"host_bytes"`
	// Part is the bytes of arguments on one device of a program whose sizes are those of all; nil of others.
	Part *int64 `json:"argument_part_bytes"`
}

// ValidGrouping reports whether Inspection.By may be the text.
func ValidGrouping(by string) bool {
	return slices.Contains([]string{"op", "node", "layer", "category"}, by)
}

// group sums nodes of one kind.
type group struct {
	name           string
	nodes, values  int
	bytes, stashed symbolic.Expr // of the values that the nodes make; unknown sizes left out
	unknown        int           // values whose size is unknown
	first          int
}

// Inspect prints the contents of a graph.
func Inspect(w io.Writer, format Format, in *Inspection) error {
	groups, stashed := in.groups()
	if format == JSONFormat {
		return WriteJSON(w, in.json(groups, stashed))
	}
	if format == TableFormat {
		if err := in.head(w, stashed); err != nil {
			return err
		}
		return in.screenTable(groups, columnsOf(w) == 0).WriteText(w)
	}
	return in.table(groups).WriteAs(w, format)
}

// groups sums the values of the graph as In.By says and lists the stashed ones.
func (in *Inspection) groups() ([]*group, []live.Stash) {
	g := in.Model.Graph
	var stashed []live.Stash
	isStashed := make([]bool, len(g.Values))
	if in.Order != nil {
		stashed = live.Stashed(g, in.Order, in.Backward, func(id graph.NodeID) bool {
			return op.Of(g.Nodes[id].Kind).Has(op.ConstantRole)
		})
		for _, s := range stashed {
			isStashed[s.Value] = true
		}
	}
	index := map[string]*group{}
	var list []*group
	at := func(name string) *group {
		gr, ok := index[name]
		if !ok {
			gr = &group{name: name, bytes: symbolic.Const(0), stashed: symbolic.Const(0), first: len(list)}
			index[name] = gr
			list = append(list, gr)
		}
		return gr
	}
	for _, n := range g.Nodes {
		if in.By != "category" {
			at(in.key(n)).nodes++
		}
		for _, v := range n.Outputs {
			if v == graph.NoValue {
				continue
			}
			gr := at(in.valueKey(n, isStashed[v]))
			gr.add(g.Values[v].Type.Bytes(), isStashed[v])
			gr.values++
		}
	}
	if in.By == "category" {
		in.addPersistent(at)
	}
	in.sort(list)
	if in.Top > 0 && len(list) > in.Top {
		list = list[:in.Top]
	}
	return list, stashed
}

func (gr *group) add(bytes symbolic.Expr, stashed bool) {
	if !bytes.IsKnown() {
		gr.unknown++
		return
	}
	gr.bytes = gr.bytes.Add(bytes)
	if stashed {
		gr.stashed = gr.stashed.Add(bytes)
	}
}

func (in *Inspection) key(n *graph.Node) string {
	switch in.By {
	case "node":
		return in.Model.Graph.NodeLabel(n.ID)
	case "layer":
		return graph.LayerOf(n.Name)
	}
	if n.Domain == "" {
		return n.Op
	}
	return n.Domain + "." + n.Op
}

// valueKey is the group that a node's output belongs to.
func (in *Inspection) valueKey(n *graph.Node, stashed bool) string {
	switch {
	case in.By != "category":
		return in.key(n)
	case op.Of(n.Kind).Has(op.ConstantRole):
		return "constants"
	case stashed:
		return "stashed activations"
	case in.Backward != nil && in.Backward[n.ID]:
		return "backward values"
	}
	return "other activations"
}

// addPersistent adds the categories of values that no node makes.
func (in *Inspection) addPersistent(at func(string) *group) {
	g := in.Model.Graph
	for i := range g.Values {
		v := &g.Values[i]
		name := "graph inputs"
		if v.IsInitializer() {
			name = "initializers"
		} else if !v.Input {
			continue
		}
		gr := at(name)
		gr.add(v.Type.Bytes(), false)
		gr.values++
	}
}

// sort puts the groups that make the most bytes first.
func (in *Inspection) sort(list []*group) {
	size := func(gr *group) int64 { return rank(gr.bytes, in.Dims) }
	slices.SortStableFunc(list, func(a, b *group) int {
		return cmp.Or(cmp.Compare(size(b), size(a)), cmp.Compare(b.nodes, a.nodes), cmp.Compare(a.first, b.first))
	})
}
