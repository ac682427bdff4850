package roles

import (
	"fmt"
	"slices"

	"memopt/graph"
	"memopt/internal/mapfile"
)

// Kind is the role of a tensor in a training job.
type Kind uint8

const (
	// None is the kind of a value that nodes make, or that is not of floats.
	None Kind = iota
	// Parameter: training changes it.
	Parameter
	// Constant: a number, a mask or a table that belongs to the computation.
	Constant
	// Scale: a scale, a zero point or quantized weights.
	Scale
	// Statistic: a running mean or variance.
	Statistic
	// Buffer: the program kept it, and did not train it.
	Buffer
	// Data: an input that each step is given anew.
	Data
)

var kindNames = [...][2]string{None: {"none", "none"}, Parameter: {"parameter", "parameters"},
	Constant: {"constant", "constants"}, Scale: {"operand of quantization", "operands of quantization"},
	Statistic: {"running statistic", "running statistics"}, Buffer: {"buffer", "buffers"}, Data: {"data", "data"}}

// String returns the kind as messages have it, in the singular.
func (k Kind) String() string { return kindNames[k][0] }

// Count returns a number of tensors of the kind, such as "5 constants".
func (k Kind) Count(n int) string {
	if n == 1 {
		return "1 " + kindNames[k][0]
	}
	return fmt.Sprint(n, " ", kindNames[k][1])
}

// Role is a kind, and why.
type Role struct {
	Kind Kind
	// Why is the reason for the kind, such as "the exponent of Pow"; "" of parameters.
	Why string
}

// Roles are the roles of a model's values.
type Roles struct {
	of []Role
	// Guessed lists inputs that are taken for parameters although the file does not tell them from
	// data.
	Guessed []graph.ValueID
	// Exported are the changes of the program by its exporter.
	Exported []Change
}

// Of returns the role of a value. A value that was added after Find has the kind None.
func (r *Roles) Of(v graph.ValueID) Role {
	if int(v) >= len(r.of) {
		return Role{}
	}
	return r.of[v]
}

// Find finds the roles of the float initializers and the float inputs of a model's main graph. data
// names inputs that are known to be data; nil means that no input is known to be data.
//
// Kinds of operators must be bound and types inferred. The error is one of the file's metadata.
func Find(m *graph.Model, data []string) (r *Roles, err error) {
	defer mapfile.Guard(&err)() // contents may lie in mapped files
	r = &Roles{of: make([]Role, len(m.Graph.Values))}
	told, err := toldBy(m)
	if err != nil {
		return nil, err
	}
	f := newFinder(m.Graph)
	for _, v := range m.Graph.Initializers {
		val := &m.Graph.Values[v]
		if !val.Type.DType.IsFloat() {
			continue
		}
		role, ok := told.role(val.Name)
		if !ok {
			role = f.role(v)
		}
		if role == singleNumber && told.isNumber(val.Name) {
			role = Role{Kind: Parameter}
		}
		if val.Input && slices.Contains(data, val.Name) {
			role = Role{Data, "data has its name"}
		}
		r.of[v] = role
	}
	r.inputs(m.Graph, told, f, data)
	r.Exported = exported(m, told, r)
	return r, nil
}
