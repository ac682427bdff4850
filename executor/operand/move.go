package operand

import "memopt/executor"

// Copier copies between strided arrays, of elements of one size. A box is described, then copied:
// for every index of the box, an element of the source is copied to one of the destination. Each
// device has one.
type Copier interface {
	// Begin starts the description of a box.
	Begin()
	// Add adds an axis of n elements inside those that were added before. Neighbours along it are
	// to elements apart in the destination and from elements in the source; 0 repeats an element of
	// the source.
	Add(n, to, from int)
	// Copy copies the box that was described, whose first element is number toAt of dst and number
	// fromAt of src.
	Copy(c *executor.Ctx, dst []byte, toAt int, src []byte, fromAt int) error
}

// Move is an operator that only copies elements of input 0 to other places.
type Move interface {
	// Run runs the node by copies of boxes of elements of its type.
	Run(c *executor.Ctx, m Copier) error
}
