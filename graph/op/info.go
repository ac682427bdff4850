package op

import (
	"fmt"
	"slices"

	"memopt/graph"
	"memopt/symbolic"
)

// RecomputeClass is the price of recomputing an operator's result.
type RecomputeClass uint8

const (
	// Never: it has state or side effects, or a second run gives other numbers.
	Never RecomputeClass = iota
	// Free: a view; the output is the input's memory under another shape.
	Free
	// Cheap: bound by memory bandwidth; it reads and writes each element a
	// small number of times.
	Cheap
	// Expensive: bound by arithmetic, as products of matrices are.
	Expensive
	// Seeded: random, and repeatable once its seed is fixed; as cheap as Cheap.
	Seeded
)

var classNames = [...]string{Never: "never", Free: "free", Cheap: "cheap", Expensive: "expensive", Seeded: "seeded"}

// String returns the class's name as reports print it.
func (c RecomputeClass) String() string { return classNames[c] }

// Role marks the few operators that the analyses treat apart.
type Role uint16

const (
	// Yield separates the forward from the backward half of an ORTModule graph.
	Yield Role = 1 << iota
	// Loss computes a training loss.
	Loss
	// Norm is one of the norms that can bound a transformer layer.
	Norm
	// AddNode is the plain addition that closes a residual connection.
	AddNode
	// AttentionSoftmax is a softmax that marks an attention block.
	AttentionSoftmax
	// ShapeOf reads only the shape of its input (Shape, Size).
	ShapeOf
	// CastRole converts the element type.
	CastRole
	// ReshapeRole changes only the dims.
	ReshapeRole
	// ConstantRole has its contents in the file, as an initializer has.
	ConstantRole
	// PythonRole calls a Python function, named by the attribute func_name.
	PythonRole
	// Gradient is an operator that only occurs in backward halves.
	Gradient
	// IdentityRole gives its input as it is.
	IdentityRole
	// TransposeRole permutes the axes of its input, by the attribute perm.
	TransposeRole
)

// Control says how a node of control flow runs its subgraphs.
type Control uint8

const (
	// NoControl is for operators that are no control flow.
	NoControl Control = iota
	// Branches: one of then_branch and else_branch, as input 0 says (If).
	Branches
	// Loops: body, as long as a condition holds and a count is not reached (Loop).
	Loops
	// Scans: body, once for each row of the scan inputs (Scan).
	Scans
)

// Transfer says how an operator takes part in copies between the device's memory and the host's.
type Transfer uint8

const (
	// NoTransfer is for all other operators.
	NoTransfer Transfer = iota
	// ToHost begins a copy of input 0 into output 0, which lies in the host's memory (Offload).
	ToHost
	// FromHost begins a copy of input 0, which lies there, into output 0 on the device (Reload).
	FromHost
	// Awaits waits until the copy into input 0 has ended (Wait).
	Awaits
)

// Arity is the number of operands that an operator takes; Max -1 is unlimited.
type Arity struct{ Min, Max int }

// String prints the arity as messages do: "2", "1 to 3", "1 or more".
func (a Arity) String() string {
	switch {
	case a.Max < 0:
		return fmt.Sprintf("%d or more", a.Min)
	case a.Min == a.Max:
		return fmt.Sprint(a.Min)
	}
	return fmt.Sprintf("%d to %d", a.Min, a.Max)
}

// Recomputable is one entry of ONNX Runtime's table of recomputable operators.
type Recomputable struct {
	Level    int   // first probe level that counts it: 0 or 1
	Versions []int // schema versions of the entry
	Skip     []int // inputs that the search does not follow
}

// Update is an input and the output that is its next value.
type Update struct{ In, Out int }

// Info is a row of the table: the identity of an operator, the shapes and the work of its results, and the facts that
// the analyses of memory, of division and of training need.
type Info struct {
	Schema
	Role Role

	// Infer is the shape rule.
	Infer func(*Ctx)
	// Class is the price of recomputing the result.
	Class RecomputeClass
	// FLOPs is the number of floating-point operations of one execution; nil means one per element
	// of the outputs, and 0 for views and shape arithmetic.
	FLOPs func(*Ctx) symbolic.Expr

	Sharing
	Division
	Randomness
	State

	// ORT has ONNX Runtime's entries for the operator.
	ORT []Recomputable
}

// Schema says which nodes are of the operator.
type Schema struct {
	Kind    graph.Kind
	Domain  string // "" is ONNX's own
	Name    string
	Since   []int // versions of the domain's operator set that changed the schema
	Inputs  Arity
	Outputs Arity
	// AnyName says that nodes of the domain are of this row whatever their names.
	AnyName bool
	// Moved lists attributes that became inputs.
	Moved []Moved
	// Dialect names the tool whose files give nodes of this name the row's meaning, in spite of the
	// operator sets that they import. Such a row is tried if the definition contradicts a node. ""
	// means the definition itself.
	Dialect string
	// Control says how the operator runs its subgraphs.
	Control Control
}

// Sharing says which operands share memory. The zero value is an operator whose operands each have their own.
type Sharing struct {
	// View says that output 0 is input 0 under another shape, without bytes of its own, as for a Reshape, for example.
	View bool
	// InPlace lists the inputs into whose memory output 0 may be written when
	// they are read for the last time and have the same size.
	InPlace []int
	// Throughout lists inputs that the kernel reads until it has written the last element of output
	// 0, as the factors of a MatMulAdd, for example. Output 0 may be written over another input
	// only if that shares no memory with them.
	Throughout []int
	// Cuts returns, for each output, the element of input 0 at which it begins, and -1 for an
	// output that is no run of consecutive elements of input 0: the others can be views of it. The
	// outputs, for example, of a Split of 6 elements in halves begin at 0 and 3. nil means that no
	// output is a part of input 0.
	Cuts func(*Pieces) []int64
	// Joins returns, for each input, the element of output 0 at which it lies as a run of consecutive
	// elements, and -1 for an input that does not: the others can be written there when they are
	// made. nil means that no input lies in output 0.
	Joins func(*Pieces) []int64
	// Mutates lists the inputs whose memory the operator updates: its state. An executor keeps such
	// inputs from step to step.
	Mutates []int
	// Transfer says that the operator begins or awaits a copy between the memories of device and host.
	Transfer Transfer
	// Pending says that output 0 is undefined, and its memory in use, until another node has waited for the
	// operation that this one begins.
	Pending bool
}

// Division says how the work of a node can be divided.
type Division struct {
	// Factors returns the directions that divide a node's work into parts. The draws of a random
	// operator follow its elements' places in the whole. nil means that the work cannot be divided.
	Factors func(*Pieces) []Factor
	// Shapes lists the inputs whose contents are the dims of output 0, which those of a part replace.
	Shapes []int
}

// Randomness says whether the result depends on a random draw. The zero value is an operator without one.
type Randomness struct {
	Random bool
	// SeedAttr names the attribute that fixes the draw, which the schema has from version SeedSince on;
	// FloatSeed says that it is a float.
	SeedAttr  string
	SeedSince int
	FloatSeed bool
	// Training is the input of a random operator that, left out or false, keeps it from drawing, in
	// versions from TrainingSince on; before these an attribute does. 0 means that it always draws.
	Training      int
	TrainingSince int
}

// State lists the values that an operator carries from one training step to the next, and how evaluation differs. The
// zero value is an operator without state that does the same in training and evaluation.
type State struct {
	// Updates lists running statistics and the outputs that are their new values. Where these are
	// made, no other output depends on the statistics, and ONNX Runtime's kernels write the new
	// ones into the memory of the old, even if they are weights of the file.
	Updates []Update
	// Trains reports, with Updates, whether a node of a schema version makes new values of its running
	// statistics, be they outputs or not.
	Trains func(n *graph.Node, version int) bool
	// Evaluate edits a node of a schema version for evaluation: a Dropout becomes an identity, a norm
	// takes the running statistics. It may leave out inputs, and outputs behind the first. nil means
	// that the operator does the same in training and evaluation.
	Evaluate func(n *graph.Node, version int) error
	// States lists an optimizer's inputs from the step before and the outputs that are their next
	// values. Kernels may write these into the inputs' memory: they have read an element before
	// they write it.
	States []Update
}

// Moved is an attribute that became an input at a schema version: Dropout's ratio in 12, for example.
type Moved struct {
	Attr  string
	Since int
	Slot  int
}

// InputSince returns the first schema version that has a former attribute as an input; 0 if it
// never was an attribute.
func (i *Info) InputSince(attr string) int {
	for _, m := range i.Moved {
		if m.Attr == attr {
			return m.Since
		}
	}
	return 0
}

// Has reports whether the row has a role.
func (i *Info) Has(r Role) bool { return i.Role&r != 0 }

// Updated reports whether an output is the new value of a running statistic.
func (i *Info) Updated(out int) bool {
	return slices.ContainsFunc(i.Updates, func(u Update) bool { return u.Out == out })
}

// SinceVersion returns the newest schema version that is not above the imported version of the
// domain, or 0 if all are above it.
func (i *Info) SinceVersion(imported int64) int {
	since := 0
	for _, v := range i.Since {
		if int64(v) <= imported {
			since = v
		}
	}
	return since
}

// VersionOf returns the schema version of a node of the operator in a model that imports the given
// version of its domain.
func (i *Info) VersionOf(n *graph.Node, imported int64) int {
	if n.Version != 0 {
		return int(n.Version)
	}
	return i.SinceVersion(imported)
}

// Title names the operator as messages do: with its version, or with the tool in whose dialect it
// is.
func (i *Info) Title(version int) string {
	if i.Dialect != "" {
		return i.Name + " of " + i.Dialect
	}
	return fmt.Sprintf("%s-%d", i.Name, version)
}

// CanSeed reports whether a draw of the operator's given schema version can be repeated: it draws
// no numbers, or an attribute fixes them.
func (i *Info) CanSeed(since int) bool {
	return !i.Random || i.SeedAttr != "" && since >= i.SeedSince
}
