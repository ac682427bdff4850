package examples

import (
	"fmt"
	"math"

	"memopt/graph"
)

// TransformerOptions describes a decoder-only transformer. A zero field stands
// for its default.
type TransformerOptions struct {
	Layers    int     // default 4
	Hidden    int     // width of the residual stream; default 768
	Heads     int     // attention heads, a divisor of Hidden; default 12
	FFN       int     // width of the feed-forward part; default 4·Hidden
	Vocab     int     // tokens; default 32000
	Positions int     // longest sequence; default 1024
	Dropout   float64 // probability in (0, 1); default 0.1

	// Half makes products, their weights and the embeddings float16. The residual
	// stream, the norms with their weights, softmax and loss stay float32, with the Casts
	// between them that PyTorch's automatic mixed precision leaves.
	Half bool
	// FastGelu takes the tanh approximation with the bias fused in, instead of an Add and an exact
	// Gelu.
	FastGelu bool
}

func (o TransformerOptions) withDefaults() (TransformerOptions, error) {
	setDefault(&o.Layers, 4)
	setDefault(&o.Hidden, 768)
	setDefault(&o.Heads, 12)
	setDefault(&o.FFN, 4*o.Hidden)
	setDefault(&o.Vocab, 32000)
	setDefault(&o.Positions, 1024)
	setDefault(&o.Dropout, 0.1)
	err := checkSizes("transformer", []size{{"Layers", o.Layers}, {"Hidden", o.Hidden}, {"Heads", o.Heads},
		{"FFN", o.FFN}, {"Vocab", o.Vocab}, {"Positions", o.Positions}})
	switch {
	case err != nil:
	case o.Hidden%o.Heads != 0:
		err = fmt.Errorf("transformer: Hidden is %d, which %d Heads do not divide; choose a multiple of Heads",
			o.Hidden, o.Heads)
	case !(o.Dropout > 0 && o.Dropout < 1):
		err = fmt.Errorf("transformer: Dropout is %v; it must be in (0, 1)", o.Dropout)
	}
	return o, err
}

// transformer is a tape with the values that all layers share.
type transformer struct {
	*tape
	o     TransformerOptions
	dtype graph.DType   // of the products
	mask  graph.ValueID // bool [seq, seq], true where a position may not look
	seed  int64
}

// Transformer returns the training graph of a GPT-like decoder with norms before attention and
// feed-forward part, as ORTModule makes it after its graph optimizations.
// Inputs: input_ids, position_ids and labels, all int64[batch, seq] (a label of
// -100 does not count; labels are already shifted), then the weights in the order of
// use, laid out [in, out] as in GPT-2. The table of token embeddings is also the last
// projection. The loss is the mean cross entropy; the gradient that comes back through
// the YieldOp scales all gradients (1 for the plain ones). Outputs: the gradients of all
// weights.
//
// Every Dropout has a seed except that on the attention of layer 0, so a rewrite that recomputes it
// must fix one first.
func Transformer(o TransformerOptions) (*graph.Model, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	t := &transformer{tape: newTape(newBuilder("transformer", ortOpsets()...)), o: o, dtype: graph.Float32}
	if o.Half {
		t.dtype = graph.Float16
	}
	tokens := t.data("input_ids", graph.Int64, dims("batch", "seq"))
	positions := t.data("position_ids", graph.Int64, dims("batch", "seq"))
	labels := t.data("labels", graph.Int64, dims("batch", "seq"))

	t.mask = t.causalMask(tokens)
	x, table := t.embed(tokens, positions)
	for i := range o.Layers {
		x = t.layer(fmt.Sprintf("transformer.h.%d", i), x, i)
	}
	x = t.norm("transformer.ln_f", x)
	t.head(x, table, labels)
	return t.finish()
}

// scopeOf turns a module's name into the prefix that PyTorch's exporter gives to its nodes:
// transformer.h.0.attn becomes /transformer/h.0/attn.
func scopeOf(module string) string {
	scope := "/"
	for i, c := range module {
		digit := i+1 < len(module) && module[i+1] >= '0' && module[i+1] <= '9'
		if c == '.' && !digit {
			scope += "/"
		} else {
			scope += string(c)
		}
	}
	return scope
}

// causalMask compares positions: column > row.
func (t *transformer) causalMask(tokens *value) graph.ValueID {
	op := func(op, name string, in []graph.ValueID, attrs ...graph.Attr) graph.ValueID {
		name = "/transformer/" + name
		return t.node(onnxDomain, op, name, in, []string{name + "_output_0"}, attrs...)[0]
	}
	shape := op("Shape", "Shape", ids(tokens.id))
	length := op("Gather", "Gather", ids(shape, t.intScalar(1)), intAttr("axis", 0))
	at := op("Range", "Range", ids(t.intScalar(0), length, t.intScalar(1)))
	row := op("Unsqueeze", "Unsqueeze", ids(at, t.ints(1)))
	column := op("Unsqueeze", "Unsqueeze_1", ids(at, t.ints(0)))
	return op("Less", "Less", ids(row, column))
}

// nextSeed numbers the Dropout nodes.
func (t *transformer) nextSeed() int64 {
	t.seed++
	return t.seed
}

// embed makes the residual stream: token plus position.
func (t *transformer) embed(tokens, positions *value) (x, table *value) {
	table = t.weight("transformer.wte.weight", t.dtype, t.o.Vocab, t.o.Hidden)
	places := t.weight("transformer.wpe.weight", t.dtype, t.o.Positions, t.o.Hidden)
	x = t.add("/transformer/Add", t.gather("/transformer/wte/Gather", table, tokens),
		t.gather("/transformer/wpe/Gather", places, positions))
	x = t.dropout("/transformer/drop/Dropout", x, t.o.Dropout, t.nextSeed())
	return t.cast("/transformer/Cast", x, graph.Float32), table
}

// layer is x + attention(norm(x)), then the same with the feed-forward part.
func (t *transformer) layer(module string, x *value, index int) *value {
	scope := scopeOf(module)
	attention := t.attention(module+".attn", t.norm(module+".ln_1", x), index)
	x = t.add(scope+"/Add", x, t.cast(scope+"/Cast", attention, graph.Float32))
	ffn := t.feedForward(module+".mlp", t.norm(module+".ln_2", x))
	return t.add(scope+"/Add_1", x, t.cast(scope+"/Cast_1", ffn, graph.Float32))
}

// norm normalises in float32 and hands the result to products.
func (t *transformer) norm(module string, x *value) *value {
	scale := t.weight(module+".weight", graph.Float32, t.o.Hidden)
	bias := t.weight(module+".bias", graph.Float32, t.o.Hidden)
	y := t.layerNorm(scopeOf(module)+"/LayerNormalization", x, scale, bias)
	return t.cast(scopeOf(module)+"/Cast", y, t.dtype)
}

// dense is a product with a weight of its own and a bias.
func (t *transformer) dense(module string, x *value, in, out int) *value {
	w := t.weight(module+".weight", t.dtype, in, out)
	bias := t.weight(module+".bias", t.dtype, out)
	return t.linear(scopeOf(module), x, w, bias, in, out)
}

func (t *transformer) attention(module string, x *value, index int) *value {
	scope, h := scopeOf(module), t.o.Hidden
	qkv := t.dense(module+".c_attn", x, h, 3*h)
	parts := t.split(scope+"/Split", qkv, 3, int64(h))
	q := t.heads(scope, "", parts[0], 0, 2, 1, 3)
	k := t.heads(scope, "_1", parts[1], 0, 2, 3, 1) // transposed already
	v := t.heads(scope, "_2", parts[2], 0, 2, 1, 3)
	y := t.batchMatMul(scope+"/MatMul_1", t.probabilities(scope, q, k, index), v)
	y = t.transpose(scope+"/Transpose_3", y, 0, 2, 1, 3)
	y = t.reshape(scope+"/Reshape_3", y, 0, 0, int64(h))
	y = t.dense(module+".c_proj", y, h, h)
	return t.dropout(scope+"/resid_dropout/Dropout", y, t.o.Dropout, t.nextSeed())
}

// heads cuts the last dim into heads and permutes [batch, seq, head, element].
func (t *transformer) heads(scope, suffix string, x *value, perm ...int64) *value {
	x = t.reshape(scope+"/Reshape"+suffix, x, 0, 0, int64(t.o.Heads), int64(t.o.Hidden/t.o.Heads))
	return t.transpose(scope+"/Transpose"+suffix, x, perm...)
}

// probabilities is dropout(softmax(mask(q·k/√size))).
func (t *transformer) probabilities(scope string, q, k *value, index int) *value {
	size := float64(t.o.Hidden / t.o.Heads)
	s := t.batchMatMul(scope+"/MatMul", q, k)
	s = t.scale(scope+"/Mul", s, t.floatScalar("attention_scale", s.dtype, 1/math.Sqrt(size)))
	s = t.cast(scope+"/Cast", s, graph.Float32)
	s = t.maskedFill(scope+"/Where", t.mask, t.floatScalar("shared_lowest", graph.Float32, -math.MaxFloat32), s)
	seed := t.nextSeed()
	if index == 0 {
		seed = noSeed
	}
	p := t.dropout(scope+"/attn_dropout/Dropout", t.softmax(scope+"/Softmax", s), t.o.Dropout, seed)
	return t.cast(scope+"/Cast_1", p, t.dtype)
}

func (t *transformer) feedForward(module string, x *value) *value {
	h, f := t.o.Hidden, t.o.FFN
	x = t.activated(module, x, h, f)
	x = t.dense(module+".c_proj", x, f, h)
	return t.dropout(scopeOf(module)+"/dropout/Dropout", x, t.o.Dropout, t.nextSeed())
}

// activated is gelu(x·w + bias).
func (t *transformer) activated(module string, x *value, in, out int) *value {
	scope := scopeOf(module)
	if !t.o.FastGelu {
		return t.gelu(scope+"/act/Gelu", t.dense(module+".c_fc", x, in, out))
	}
	w := t.weight(module+".c_fc.weight", t.dtype, in, out)
	bias := t.weight(module+".c_fc.bias", t.dtype, out)
	return t.biasFastGelu(scope+"/act/FastGelu", t.linear(scope+"/c_fc", x, w, nil, in, out), bias)
}

// head projects on the vocabulary with the table of embeddings and ends in the loss.
func (t *transformer) head(x, table, labels *value) {
	h, v := t.o.Hidden, t.o.Vocab
	logits := t.linear("/lm_head", x, t.transpose("/lm_head/Transpose", table, 1, 0), nil, h, v)
	scores := t.cast("/Cast", t.reshape("/Reshape", logits, -1, int64(v)), graph.Float32)
	t.yieldLoss(scores, t.reshape("/Reshape_1", labels, -1))
}
