package cuda

import (
	"memopt/executor"
	"memopt/graph"
)

// suffix returns the name of an element type in the names of kernels, "" if no kernel computes with
// it. Bools are bytes.
func suffix(d graph.DType) string {
	switch d {
	case graph.Float32:
		return "f32"
	case graph.Float64:
		return "f64"
	case graph.Float16:
		return "f16"
	case graph.BFloat16:
		return "bf16"
	case graph.Int32:
		return "i32"
	case graph.Int64:
		return "i64"
	case graph.Bool, graph.Uint8:
		return "u8"
	}
	return ""
}

// isFloat reports whether a type is one of the kernels' floats, which they compute with in f32.
func isFloat(d graph.DType) bool {
	return d == graph.Float32 || d == graph.Float16 || d == graph.BFloat16
}

// sameTypes refuses operands of different types.
func sameTypes(p *executor.Prep) error {
	for i, d := range p.In {
		if d != graph.Undefined && d != p.In[0] {
			return p.Errorf("input %d is of type %v, wanted that of input 0, %v", i, d, p.In[0])
		}
	}
	return nil
}

// noTypes is the error for element types that no kernel takes.
func noTypes(p *executor.Prep) error { return p.Unsupported("no CUDA kernel for input types %v", p.In) }
