package stages

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"memopt/executor"
	"memopt/executor/dataset"
	"memopt/graph"
)

// Models whose step takes more device memory than this are not small: stage bench runs them.
const (
	smallModel    = 2 << 30
	smallToyModel = 16 << 20
)

// runModels runs every small model.
func runModels(r *runner) {
	limit := int64(smallModel)
	if r.toy {
		limit = smallToyModel
	}
	for _, m := range r.listModels() {
		if r.ctx.Err() != nil {
			return
		}
		if m.set == "" { // models with data are small
			if size, why := r.size(m, nil); why != "" || size > limit {
				r.row(m.name, NotAvailable, cmp.Or(why, "it is not small"),
					Figure{"arena, inputs and weights", float64(size), "bytes"})
				continue
			}
		}
		r.levels(m)
		if m.set != "" && (m.meta.Exact == nil || *m.meta.Exact) {
			r.references(m)
		}
	}
}

// size returns the bytes that a step takes without recomputing, by counting, or why that cannot be
// found out.
func (r *runner) size(m *model, dims map[string]int64) (int64, string) {
	var v runReport
	a := r.onBackend(&v, "null", "run", m.file, append(m.inputs(dims), "--level", "0")...)
	if a.code != 0 {
		return 0, a.why()
	}
	return v.Peak.Planned + v.Peak.Persistent, ""
}

// onBackend is onDevice with another backend.
func (r *runner) onBackend(v any, backend, verb, file string, args ...string) *answer {
	other := *r
	other.backend = backend
	return other.onDevice(v, verb, file, args...)
}

// levels verifies the plans of the three levels.
func (r *runner) levels(m *model) {
	var figures []Figure
	for _, level := range []string{"0", "1", "2"} {
		var v verifyReport
		a := r.onDevice(&v, "verify", m.file, append(m.inputs(nil), "--level", level, "-r", "2")...)
		if a.code != 0 {
			r.row(m.name+": verify", Fail, "level "+level+": "+a.why(), figures...)
			return
		}
		if v.Planned.Peak.Measured != v.Planned.Peak.Planned {
			r.row(m.name+": verify", Fail,
				fmt.Sprintf("level %s: the measured arena is %d bytes, %d were planned", level, v.Planned.Peak.Measured,
					v.Planned.Peak.Planned), figures...)
			return
		}
		figures = append(figures, Figure{"arena at level " + level, float64(v.Planned.Peak.Measured), "bytes"})
	}
	r.row(m.name+": verify", Pass, "", figures...)
}

// references compares outputs and gradients with those from PyTorch.
func (r *runner) references(m *model) {
	dir := filepath.Join(r.tmp, m.name)
	var v runReport
	a := r.onDevice(&v, "run", m.file, append(m.inputs(nil), "--level", "0", "--save-outputs", dir)...)
	check := m.name + ": outputs and gradients"
	if a.code != 0 {
		r.row(check, Fail, a.why())
		return
	}
	worst, where, compared := 0.0, "", 0
	outputs, _ := filepath.Glob(filepath.Join(m.set, "output_*.pb"))
	gradients, _ := filepath.Glob(filepath.Join(m.dir, "grads", "*.pb"))
	for i, file := range append(outputs, gradients...) {
		share, name, err := m.apart(file, dir, i >= len(outputs))
		if err != nil {
			r.row(check, Fail, err.Error())
			return
		}
		if compared++; share > worst {
			worst, where = share, name
		}
	}
	r.judge(check, worst <= 1, where+" is further off than the tolerance of meta.json",
		Figure{"compared", float64(compared), "tensors"}, Figure{"worst difference", worst, "of the tolerance"},
		Figure{"nodes on the host", nodes(v.OnHost), ""})
}

func nodes(onHost map[string]int) float64 {
	n := 0
	for _, count := range onHost {
		n += count
	}
	return float64(n)
}

// apart compares a reference, for an output or a gradient, with the results that a run has saved in
// a folder: max|got - want| as a share of atol + rtol*max|want|.
func (m *model) apart(reference, dir string, gradient bool) (share float64, name string, err error) {
	want, err := dataset.ReadTensor(reference)
	if err != nil {
		return 0, "", err
	}
	if name = want.Name; gradient {
		name = strings.TrimSuffix(filepath.Base(reference), ".pb") + "_grad"
	}
	got, err := dataset.ReadTensor(filepath.Join(dir, name+".pb"))
	if err != nil {
		return 0, "", err
	}
	if want.Tensor.DType != graph.Float32 || got.Tensor.DType != graph.Float32 ||
		want.Tensor.Len() != got.Tensor.Len() {
		return 0, "", fmt.Errorf("%s is %v, wanted %v", name, got.Tensor, want.Tensor)
	}
	g, off, largest := executor.Of[float32](got.Tensor), 0.0, 0.0
	for i, w := range executor.Of[float32](want.Tensor) {
		d := math.Abs(float64(w) - float64(g[i]))
		if math.IsNaN(d) {
			d = math.Inf(1)
		}
		off, largest = max(off, d), max(largest, math.Abs(float64(w)))
	}
	return off / (m.meta.Tolerance.Abs + m.meta.Tolerance.Rel*largest), name, nil
}
