package stages

import (
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
	smallModel    = 8 << 30
	smallToyModel = 1 << 20
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
		if size, why := r.size(m, nil); why != "" || size > limit {
			if why == "" {
				why = "it is not small"
			}
			r.row(m.name, NotAvailable, why, Figure{"arena, inputs and weights", float64(size), "bytes"})
			continue
		}
		r.levels(m)
		if m.set != "" && (m.meta.Exact == nil || *m.meta.Exact) {
			r.references(m)
		}
	}
}

// size returns the bytes that a step takes without recomputing, by counting, or why that cannot be told.
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
			r.row(m.name+": verify", Fail, fmt.Sprintf("level %s: the measured arena is %d bytes, %d were planned", level, v.Planned.Peak.Measured, v.Planned.Peak.Planned), figures...)
			return
		}
		figures = append(figures, Figure{"arena at level " + level, float64(v.Planned.Peak.Measured), "bytes"})
	}
	r.row(m.name+": verify", Pass, "", figures...)
}

// references compares outputs and gradients with those that PyTorch gave.
func (r *runner) references(m *model) {
	dir := filepath.Join(r.tmp, m.name)
	var v runReport
	a := r.onDevice(&v, "run", m.file, append(m.inputs(nil), "--level", "0", "--save-outputs", dir,
		"--atol", fmt.Sprint(m.meta.Tolerance.Abs), "--rtol", fmt.Sprint(m.meta.Tolerance.Rel))...)
	check := m.name + ": outputs and gradients"
	if a.code != 0 {
		r.row(check, Fail, a.why())
		return
	}
	files, _ := filepath.Glob(filepath.Join(m.dir, "grads", "*.pb"))
	worst, compared := 0.0, 0
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".pb")
		if strings.HasPrefix(name, "_") {
			continue // labels of a loss outside the graph
		}
		share, err := m.apart(file, filepath.Join(dir, name+"_grad.pb"))
		if err != nil {
			r.row(check, Fail, err.Error())
			return
		}
		worst, compared = max(worst, share), compared+1
	}
	r.judge(check, worst <= 1, "a gradient is further off than the tolerance of meta.json", Figure{"gradients", float64(compared), ""}, Figure{"worst difference", worst, "of the tolerance"}, Figure{"nodes on the host", nodes(v.OnHost), ""})
}

func nodes(onHost map[string]int) float64 {
	n := 0
	for _, count := range onHost {
		n += count
	}
	return float64(n)
}

// apart compares two float32 tensors in files: max|got - want| as a share of atol + rtol*max|want|.
func (m *model) apart(wantFile, gotFile string) (float64, error) {
	want, err := dataset.ReadTensor(wantFile)
	if err != nil {
		return 0, err
	}
	got, err := dataset.ReadTensor(gotFile)
	if err != nil {
		return 0, err
	}
	if want.Tensor.DType != graph.Float32 || got.Tensor.DType != graph.Float32 || want.Tensor.Len() != got.Tensor.Len() {
		return 0, fmt.Errorf("%s is %v, wanted %v", gotFile, got.Tensor, want.Tensor)
	}
	g, off, largest := executor.Of[float32](got.Tensor), 0.0, 0.0
	for i, w := range executor.Of[float32](want.Tensor) {
		d := math.Abs(float64(w) - float64(g[i]))
		if math.IsNaN(d) {
			d = math.Inf(1)
		}
		off, largest = max(off, d), max(largest, math.Abs(float64(w)))
	}
	return off / (m.meta.Tolerance.Abs + m.meta.Tolerance.Rel*largest), nil
}
