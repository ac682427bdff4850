package main

import (
	"memopt/executor/npz"
	"memopt/executor/verify"
)

// saveNPZ writes the outputs of a run as arrays named after them.
func saveNPZ(path string, r *verify.Run) (err error) {
	w, err := npz.Create(path)
	if err != nil {
		return err
	}
	for _, o := range r.Outputs {
		if err = w.Add(o.Name, o.Tensor); err != nil {
			break
		}
	}
	if e := w.Close(); err == nil {
		err = e
	}
	return err
}
