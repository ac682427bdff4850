package remat

import "math"

// ellipsoid is where the best point may be: around a center, with a matrix.
type ellipsoid struct {
	at    []float64
	shape [][]float64
}

// newEllipsoid is a ball.
func newEllipsoid(at []float64, radius float64) *ellipsoid {
	e := &ellipsoid{at: at}
	for i := range at {
		e.shape = append(e.shape, make([]float64, len(at)))
		e.shape[i][i] = radius * radius
	}
	return e
}

// cut drops the part against a slope: a best point x has slope*(x-at) >= depth. It reports whether some part is left.
func (e *ellipsoid) cut(slope []float64, depth float64) bool {
	n := float64(len(e.at))
	way, norm := make([]float64, len(e.at)), 0.0
	for i, row := range e.shape {
		for j, s := range slope {
			way[i] += row[j] * s
		}
		norm += slope[i] * way[i]
	}
	if !(norm > 0) {
		return false
	}
	norm = math.Sqrt(norm)
	deep := depth / norm
	if deep >= 1 {
		return false
	}
	step := (1 + n*deep) / (n + 1)
	for i := range e.at {
		e.at[i] += step * way[i] / norm
	}
	if n == 1 {
		e.shape[0][0] *= (1 - deep) * (1 - deep) / 4
		return true
	}
	grow := n * n / (n*n - 1) * (1 - deep*deep)
	shrink := 2 * step / (1 + deep)
	for i, row := range e.shape {
		for j := range row {
			row[j] = grow * (row[j] - shrink*way[i]*way[j]/(norm*norm))
		}
	}
	return true
}
