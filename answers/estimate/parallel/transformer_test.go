package parallel_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/graph"
)

// shape is a transformer's shape, in the letters of Korthikanti and others (2022), table 1. cut is
// the number of tensor parallel ranks into which its weights are physically cut: the graph is then
// what one rank computes, without communication.
type shape struct {
	a, b, h, L, s, v int
	ffn              int
	cut              int
	tied             bool    // the head is the table of tokens
	dropout          float64 // 0: none
	half             bool    // everything that is computed is float16
}

// transformer is a forward model of GPT-2's kind with the loss inside, in ONNX's own operators.
func transformer(t *testing.T, p shape) *memopt.Model {
	t.Helper()
	m, err := graph.Parse(p.text(), "transformer")
	require.NoError(t, err)
	out, err := memopt.New(m, memopt.Options{})
	require.NoError(t, err)
	return out
}

// writer writes the text of a model.
type writer struct {
	shape
	inputs []string
	nodes  strings.Builder
	float  string
}

func (p shape) text() string {
	if p.cut == 0 {
		p.cut = 1
	}
	w := &writer{shape: p, float: "float"}
	if p.half {
		w.float = "float16"
	}
	w.inputs = []string{fmt.Sprintf("int64[%d, %d] ids, int64[%d, %d] labels", p.b, p.s, p.b, p.s)}
	w.weight("wte", p.v/p.cut, p.h)
	w.weight("wpe", p.s, p.h)
	w.node("wte/Gather", "x", "Gather", "wte, ids")
	w.node("wpe/Add", "x0", "Add", "x, wpe")
	x := w.drop("embed/Dropout", "x0")
	for i := range p.L {
		x = w.layer(fmt.Sprintf("h.%d", i), x)
	}
	x = w.norm("ln_f", x)
	head := "wte"
	if p.tied {
		w.node("head/Transpose", "wteT", "Transpose <perm = [1, 0]>", "wte")
		head = "wteT"
	} else {
		head = "head.weight"
		w.weight(head, p.h, p.v/p.cut)
	}
	w.node("head/MatMul", "logits", "MatMul", x+", "+q(head))
	w.constant("flat", -1, p.v/p.cut)
	w.constant("minus", -1)
	w.node("head/Reshape", "scores", "Reshape", "logits, flat")
	w.node("head/Reshape_1", "wanted", "Reshape", "labels, minus")
	w.node("loss", "loss", "SoftmaxCrossEntropyLoss", "scores, wanted")
	return fmt.Sprintf("<ir_version: 8, opset_import: [\"\": 20]>\ng (%s) => (%s loss) {\n%s}\n",
		strings.Join(w.inputs, ", "), w.float, w.nodes.String())
}

func q(name string) string { return fmt.Sprintf("%q", name) }

func (w *writer) node(name, out, op, in string) string {
	fmt.Fprintf(&w.nodes, "  [\"/%s\"] %s = %s (%s)\n", name, quoted(out), op, in)
	return q(out)
}

func quoted(list string) string {
	var out []string
	for _, name := range strings.Split(list, ", ") {
		out = append(out, q(name))
	}
	return strings.Join(out, ", ")
}

func (w *writer) weight(name string, dims ...int) string {
	list := strings.ReplaceAll(fmt.Sprint(dims), " ", ", ")
	w.inputs = append(w.inputs, fmt.Sprintf("%s%s %s", w.float, list, q(name)))
	return q(name)
}

func (w *writer) constant(name string, elems ...int) {
	list := strings.Trim(strings.ReplaceAll(fmt.Sprint(elems), " ", ", "), "[]")
	fmt.Fprintf(&w.nodes, "  [\"/const/%s\"] %s = Constant <value = int64[%d] {%s}> ()\n", name, q(name), len(elems),
		list)
}

func (w *writer) drop(name, x string) string {
	if w.dropout == 0 {
		return x
	}
	if !strings.Contains(w.nodes.String(), "/const/ratio") {
		fmt.Fprintf(&w.nodes, "  [\"/const/ratio\"] ratio = Constant <value = float {%g}> ()\n", w.dropout)
		fmt.Fprintf(&w.nodes, "  [\"/const/train\"] train = Constant <value = bool {1}> ()\n")
	}
	w.node(name, name+"_y, "+name+"_mask", "Dropout <seed = 1>", x+", ratio, train")
	return q(name + "_y")
}

func (w *writer) linear(module, x string, in, out int, bias bool) string {
	y := w.node(module+"/MatMul", module+"/y", "MatMul", x+", "+w.weight(module+".weight", in, out))
	if !bias {
		return y
	}
	b := w.weight(module+".bias", out)
	return w.node(module+"/Add", module+"/z", "Add", y+", "+b)
}

func (w *writer) norm(module, x string) string {
	scale, bias := w.weight(module+".weight", w.h), w.weight(module+".bias", w.h)
	return w.node(module+"/LayerNormalization", module+"/y", "LayerNormalization", x+", "+scale+", "+bias)
}

// layer is a layer as figure 2 of the paper has it, without the mask.
func (w *writer) layer(module, x string) string {
	p := w.shape
	heads, hd, h := p.a/p.cut, p.h/p.a, p.h/p.cut
	attn := module + "/attn"
	n := w.norm(module+"/ln_1", x)
	qkv := w.linear(attn+"/qkv", n, p.h, 3*h, true)
	w.constant(attn+"/sizes", h, h, h)
	w.constant(attn+"/split", 0, 0, heads, hd)
	w.constant(attn+"/join", 0, 0, h)
	w.node(attn+"/Split", attn+"/q, "+attn+"/k, "+attn+"/v", "Split <axis = 2>", qkv+", "+q(attn+"/sizes"))
	var parts []string
	for _, name := range []string{"q", "k", "v"} {
		perm := "[0, 2, 1, 3]"
		if name == "k" {
			perm = "[0, 2, 3, 1]"
		}
		r := w.node(attn+"/Reshape_"+name, attn+"/r"+name, "Reshape", q(attn+"/"+name)+", "+q(attn+"/split"))
		parts = append(parts, w.node(attn+"/Transpose_"+name, attn+"/t"+name, "Transpose <perm = "+perm+">", r))
	}
	y := w.node(attn+"/MatMul", attn+"/scores", "MatMul", parts[0]+", "+parts[1])
	y = w.node(attn+"/Softmax", attn+"/probs", "Softmax <axis = -1>", y)
	y = w.drop(attn+"/Dropout", y)
	y = w.node(attn+"/MatMul_1", attn+"/context", "MatMul", y+", "+parts[2])
	y = w.node(attn+"/Transpose", attn+"/back", "Transpose <perm = [0, 2, 1, 3]>", y)
	y = w.node(attn+"/Reshape", attn+"/joined", "Reshape", y+", "+q(attn+"/join"))
	y = w.drop(attn+"/proj/Dropout", w.linear(attn+"/proj", y, h, p.h, true))
	x = w.node(module+"/Add", module+"/mid", "Add", x+", "+y)
	n = w.norm(module+"/ln_2", x)
	y = w.linear(module+"/fc", n, p.h, p.ffn/p.cut, true)
	y = w.node(module+"/Gelu", module+"/gelu", "Gelu", y)
	y = w.drop(module+"/out/Dropout", w.linear(module+"/out", y, p.ffn/p.cut, p.h, true))
	return w.node(module+"/Add_1", module+"/x", "Add", x+", "+y)
}
