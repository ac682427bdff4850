package kerneltest

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

// drawingWhole and drawingParts are a graph of random nodes and the same in parts: the node in
// front of _from_N makes the elements from N on.
const (
	drawingWhole = `<ir_version: 10, opset_import: ["" : 17]>
g (float[9, 5] x, bool train) => (float[9, 5] y, bool[9, 5] mask, float[9, 5] z, float[9, 5] u) <float ratio = {0.4}> {
	y, mask = Dropout(x, ratio, train)
	z = RandomNormalLike(x)
	u = RandomUniformLike(x)
}`
	drawingParts = `<ir_version: 10, opset_import: ["" : 17]>
g (float[9, 5] x, bool train) => (float[9, 5] y, bool[9, 5] mask, float[9, 5] z, float[9, 5] u)
	<float ratio = {0.4}, int64[3] rows = {1, 6, 2}> {
	a, b, c = Split<axis = 0>(x, rows)
	y_from_5, m5 = Dropout(b, ratio, train)
	y_from_0, m0 = Dropout(a, ratio, train)
	y_from_35, m35 = Dropout(c, ratio, train)
	y = Concat<axis = 0>(y_from_0, y_from_5, y_from_35)
	mask = Concat<axis = 0>(m0, m5, m35)
	z_from_0 = RandomNormalLike(a)
	z_from_5 = RandomNormalLike(b)
	z_from_35 = RandomNormalLike(c)
	z = Concat<axis = 0>(z_from_0, z_from_5, z_from_35)
	u_from_0 = RandomUniformLike(a)
	u_from_5 = RandomUniformLike(b)
	u_from_35 = RandomUniformLike(c)
	u = Concat<axis = 0>(u_from_0, u_from_5, u_from_35)
}`
)

// CheckStepsInParts runs several steps of a graph of random nodes and of the same in parts, with
// seeds of the nodes and without, and compares every output of every step bit for bit. No two steps
// may draw the same.
func CheckStepsInParts(d executor.Device, seeded bool, o executor.Options) error {
	whole, err := openDrawing(d, drawingWhole, seeded, o)
	if err != nil {
		return err
	}
	defer whole.Close()
	parts, err := openDrawing(d, drawingParts, seeded, o)
	if err != nil {
		return err
	}
	defer parts.Close()
	seen := map[string]bool{}
	for step := range 6 {
		if step == 4 {
			whole.SetStep(1 << 32)
			parts.SetStep(1 << 32)
		}
		for _, s := range []*executor.Session{whole, parts} {
			if err := s.Run(context.Background()); err != nil {
				return err
			}
		}
		for i := range 4 {
			want := bytes.Clone(whole.Output(i).Data)
			if !bytes.Equal(parts.Output(i).Data, want) {
				return fmt.Errorf("step %d: output %d: the parts are not the whole", step, i)
			}
			if seen[string(want)] {
				return fmt.Errorf("step %d: output %d: drawn before", step, i)
			}
			seen[string(want)] = true
		}
	}
	return nil
}

// openDrawing opens a session of one of the graphs.
func openDrawing(d executor.Device, text string, seeded bool, o executor.Options) (*executor.Session, error) {
	m, err := graph.Parse(text, "drawing")
	if err != nil {
		return nil, err
	}
	types, err := op.Infer(m)
	if err != nil {
		return nil, err
	}
	for i, n := range m.Graph.Nodes {
		if !op.Of(n.Kind).Random {
			continue
		}
		of, from, part := strings.Cut(m.Graph.ValueName(n.Output(0)), "_from_")
		if seeded {
			op.SetSeed(n, int32(of[0])<<8)
		}
		if !part {
			continue
		}
		first, err := strconv.ParseInt(from, 10, 64)
		if err != nil {
			return nil, err
		}
		if err := op.SetDrawFrom(m.Graph.Nodes[i], of, first); err != nil {
			return nil, err
		}
	}
	s, err := executor.Open(context.Background(), m, types, d, o)
	if err != nil {
		return nil, err
	}
	x := seqTensor(graph.Float32, []int{9, 5}, seqValues(45, 1))
	for name, t := range map[string]*executor.Tensor{"x": x, "train": seqTensor(graph.Bool, nil, []float64{1})} {
		if err := s.SetInput(name, t); err != nil {
			return nil, err
		}
	}
	return s, nil
}
