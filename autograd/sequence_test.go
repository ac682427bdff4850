package autograd_test

import (
	"fmt"
	"strings"
	"testing"

	"memopt/executor"
	"memopt/graph"
	"memopt/symbolic"
)

// recurrence writes the text of a graph with one recurrent node.
type recurrence struct {
	op, attrs        string
	gates, dirs, hid int
	seq, batch       string
	bias, h0, c0, p  bool
	lens             bool
	out              string // of "y", "h" and "c", those that are read
	opset            int64
	layout           int
}

func (r recurrence) text() string {
	if r.seq == "" {
		r.seq, r.batch = "3", "2"
	}
	const in = 3
	x, state, y := fmt.Sprintf("%s, %s, %d", r.seq, r.batch, in), fmt.Sprintf("%d, %s, %d", r.dirs, r.batch, r.hid),
		fmt.Sprintf("%s, %d, %s, %d", r.seq, r.dirs, r.batch, r.hid)
	if r.layout == 1 {
		x, state, y = fmt.Sprintf("%s, %s, %d", r.batch, r.seq, in), fmt.Sprintf("%s, %d, %d", r.batch, r.dirs, r.hid),
			fmt.Sprintf("%s, %s, %d, %d", r.batch, r.seq, r.dirs, r.hid)
	}
	rows := r.gates * r.hid
	ins := []string{fmt.Sprintf("double[%s] X", x), fmt.Sprintf("double[%d, %d, %d] W", r.dirs, rows, in),
		fmt.Sprintf("double[%d, %d, %d] R", r.dirs, rows, r.hid)}
	args := []string{"X", "W", "R", "", "", "", "", ""}
	give := func(on bool, slot int, name, decl string) {
		if on {
			ins, args[slot] = append(ins, decl+" "+name), name
		}
	}
	give(r.bias, 3, "B", fmt.Sprintf("double[%d, %d]", r.dirs, 2*rows))
	give(r.lens, 4, "lens", fmt.Sprintf("int32[%s]", r.batch))
	give(r.h0, 5, "h0", fmt.Sprintf("double[%s]", state))
	give(r.c0, 6, "c0", fmt.Sprintf("double[%s]", state))
	give(r.p, 7, "P", fmt.Sprintf("double[%d, %d]", r.dirs, 3*r.hid))
	for len(args) > 0 && args[len(args)-1] == "" {
		args = args[:len(args)-1]
	}
	outs, names := []string{}, []string{}
	for i, name := range []string{"y", "h", "c"} {
		if !strings.Contains(r.out, name) {
			names = append(names, `""`)
			continue
		}
		names = append(names, name)
		outs = append(outs, fmt.Sprintf("double[%s] %s", []string{y, state, state}[i], name))
	}
	for len(names) > 0 && names[len(names)-1] == `""` {
		names = names[:len(names)-1]
	}
	for i, a := range args {
		if a == "" {
			args[i] = `""`
		}
	}
	attrs := fmt.Sprintf("hidden_size = %d", r.hid)
	if r.attrs != "" {
		attrs += ", " + r.attrs
	}
	return fmt.Sprintf("g (%s) => (%s) { %s = %s<%s>(%s) }", strings.Join(ins, ", "), strings.Join(outs, ", "),
		strings.Join(names, ", "), r.op, attrs, strings.Join(args, ", "))
}

func (r recurrence) gradCase(name string) gradCase {
	c := gradCase{
		Name: r.op + " " + name, Graph: r.text(), Opset: r.opset, Range: [2]float64{-1, 1},
		Dims: symbolic.Env{"S": 4, "B": 2},
	}
	if r.lens {
		c.In = map[string]*executor.Tensor{
			"lens": {DType: graph.Int32, Shape: []int{2}, Data: executor.Memory([]int32{2, 3})},
		}
	}
	return c
}

// TestRecurrences: directions, layouts, operands left out, outputs unused, activation functions,
// lengths.
func TestRecurrences(t *testing.T) {
	var cases []gradCase
	for _, base := range []recurrence{
		{op: "RNN", gates: 1}, {op: "GRU", gates: 3}, {op: "GRU", gates: 3, attrs: "linear_before_reset = 1"},
		{op: "LSTM", gates: 4},
	} {
		base.hid, base.dirs = 2, 1
		lstm := base.op == "LSTM"
		add := func(name string, f func(*recurrence)) {
			r := base
			f(&r)
			cases = append(cases, r.gradCase(name+" "+base.attrs))
		}
		attr := func(r *recurrence, text string) {
			if r.attrs != "" {
				text = r.attrs + ", " + text
			}
			r.attrs = text
		}
		add("plain", func(r *recurrence) { r.out = "y" })
		add("last state", func(r *recurrence) { r.out, r.bias = "h", true })
		add("all", func(r *recurrence) {
			r.out, r.bias, r.h0, r.c0, r.p = "yh", true, true, lstm, lstm
			if lstm {
				r.out = "yhc"
			}
		})
		add("reverse", func(r *recurrence) {
			r.out, r.bias, r.h0, r.c0, r.p = "yh", true, true, lstm, lstm
			attr(r, `direction = "reverse"`)
		})
		add("bidirectional, symbolic", func(r *recurrence) {
			r.out, r.bias, r.h0, r.c0, r.dirs, r.seq, r.batch = "yh", true, true, lstm, 2, "S", "B"
			attr(r, `direction = "bidirectional"`)
		})
		add("symbolic, no states", func(r *recurrence) { r.out, r.seq, r.batch = "h", "S", "B" })
		add("layout", func(r *recurrence) {
			r.out, r.layout, r.h0, r.c0, r.dirs = "yh", 1, true, lstm, 2
			attr(r, `layout = 1, direction = "bidirectional"`)
		})
		add("old set", func(r *recurrence) { r.out, r.opset, r.bias = "y", 11, true })
		add("opset 13", func(r *recurrence) { r.out, r.opset, r.bias = "y", 13, true })
		add("opset 18", func(r *recurrence) { r.out, r.opset, r.bias = "y", 18, true })
		add("lengths", func(r *recurrence) { r.out, r.lens, r.bias, r.h0, r.c0 = "yh", true, true, true, lstm })
		add("lengths, bidirectional", func(r *recurrence) {
			r.out, r.lens, r.h0, r.c0, r.p, r.dirs, r.seq, r.batch = "yh", true, true, lstm, lstm, 2, "S", "B"
			attr(r, `direction = "bidirectional"`)
		})
		add("clip", func(r *recurrence) { r.out = "y"; attr(r, "clip = 1.0") })
		cases[len(cases)-1].Fails = "attribute clip"
	}
	for _, f := range []string{"Relu", "Tanh", "Sigmoid", "Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh",
		"HardSigmoid", "Elu", "Softsign", "Softplus"} {
		cases = append(cases,
			recurrence{
				op: "RNN", gates: 1, dirs: 1, hid: 2, h0: true, out: "yh", attrs: fmt.Sprintf("activations = [%q]", f),
			}.gradCase(f))
	}
	cases = append(cases,
		recurrence{op: "LSTM", gates: 4, dirs: 1, hid: 2, h0: true, c0: true, out: "c"}.gradCase("last cell alone"),
		recurrence{op: "LSTM", gates: 4, dirs: 1, hid: 2, h0: true, c0: true, out: "yc",
			attrs: `activations = ["HardSigmoid", "ScaledTanh", "LeakyRelu"], activation_alpha = [0.3, 1.5, 0.2], activation_beta = [0.4, 0.7]`}.gradCase("functions"),
		recurrence{op: "GRU", gates: 3, dirs: 1, hid: 2, h0: true, out: "y",
			attrs: `activations = ["Softsign", "Elu"], activation_alpha = [0.5]`}.gradCase("functions"))
	checkGradients(t, cases)
}
