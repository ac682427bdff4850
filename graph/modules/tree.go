package modules

import (
	"strings"

	"memopt/graph"
)

// ID indexes Tree.Modules.
type ID int32

// None stands for no module: for nodes of the exported root itself.
const None ID = -1

// Module is one module of the program.
type Module struct {
	Name   string // as named_modules has it; the root's is left out
	Parent ID     // the module around it, None at the top
	// Calls is how often a step runs it; 0 means that the file does not say.
	Calls int
	Class string // of Python, "" where the file does not say
	// Refusal says why the exporter found that the module cannot be recomputed; "" means that it
	// can.
	Refusal    string
	Attributes map[string]any // of the modules whose memory depends on them: inplace, approximate, p
	Training   bool           // in training mode, as far as the file says
}

// Call is one run of a module: its nodes, and those of modules in it, from First up to, and not including,
// End.
type Call struct {
	Module     ID
	Outer      int32 // the call around it, an index of Tree.Calls; -1 at the top
	First, End graph.NodeID
}

// Tree has the modules of a model, and the module of each node.
type Tree struct {
	Modules []Module // in the order of a step, each after its parent
	Calls   []Call   // in the same order; inner calls follow the one around them
	Of      []int32  // by NodeID, the innermost call of a node; -1 outside of calls
	Root    string   // the attribute of the exported wrapper that holds the model, "" if there is no wrapper
	Listed  bool     // the file lists its modules: those of names that are not in the list are refused
	// Parameters are the initializers that are trained, where the file lists them; else nil.
	Parameters []string
	// Torch is the version of PyTorch that exported the model, "" if the file does not say.
	Torch string

	byName map[string]ID
}

// Lookup returns the module of a name, None if there is no such module.
func (t *Tree) Lookup(name string) ID {
	if id, ok := t.byName[name]; ok {
		return id
	}
	return None
}

// Within reports whether a call is another one or lies in it.
func (t *Tree) Within(inner, outer int32) bool {
	for ; inner >= 0; inner = t.Calls[inner].Outer {
		if inner == outer {
			return true
		}
	}
	return false
}

// Depth is how many modules lie around one.
func (t *Tree) Depth(id ID) int {
	depth := 0
	for id = t.Modules[id].Parent; id != None; id = t.Modules[id].Parent {
		depth++
	}
	return depth
}

// module returns the module of a name, which it adds with all around it.
func (t *Tree) module(name string) ID {
	if id, ok := t.byName[name]; ok {
		return id
	}
	parent := None
	for at := strings.LastIndexByte(name, '.'); at > 0; at = strings.LastIndexByte(name[:at], '.') {
		if id, ok := t.byName[name[:at]]; ok {
			parent = id
			break
		}
	}
	id := ID(len(t.Modules))
	t.Modules = append(t.Modules, Module{Name: name, Parent: parent, Training: true})
	t.byName[name] = id
	return id
}

// place puts a node into the innermost of a list of modules, the outermost first, whose calls are told
// apart by their keys.
func (t *Tree) place(n graph.NodeID, scope []level, open map[string]int32) {
	outer := int32(-1)
	key := ""
	for _, l := range scope {
		key += "\x00" + l.key
		call, ok := open[key]
		if !ok {
			call = int32(len(t.Calls))
			t.Calls = append(t.Calls, Call{Module: t.module(l.name), Outer: outer, First: n})
			open[key] = call
		}
		t.Calls[call].End = n + 1
		outer = call
	}
	t.Of[n] = outer
}

// level is one module of a scope: its name, and the key that tells this call of it from others.
type level struct{ name, key string }
