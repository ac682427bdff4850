// Package caught makes errors of panics in goroutines, where only that goroutine can stop a panic from
// ending the program.
package caught

import (
	"fmt"
	"runtime/debug"
)

// Error is a panic as an error: a fault of the program, whatever the input was.
type Error struct {
	Value any    // of the panic
	Stack []byte // where it happened
}

func (e *Error) Error() string { return fmt.Sprint(e.Value) }

// Panic is deferred by a goroutine: a panic becomes *err.
func Panic(err *error) {
	if p := recover(); p != nil {
		*err = Of(p)
	}
}

// Of turns the value that recover returned into an error, in the function that called it.
func Of(recovered any) *Error { return &Error{recovered, debug.Stack()} }
