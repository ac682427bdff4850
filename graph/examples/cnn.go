package examples

import (
	"fmt"

	"memopt/graph"
)

// CNNOptions describes a residual network for small pictures. A zero field
// stands for its default.
type CNNOptions struct {
	Stages   int // each after the first halves height and width and doubles the channels; default 3
	Blocks   int // residual blocks per stage; default 3
	Channels int // of the first stage; default 32
	Side     int // height and width of the pictures, a multiple of 2^(Stages-1); default 32
	Classes  int // default 10
}

func (o CNNOptions) withDefaults() (CNNOptions, error) {
	setDefault(&o.Stages, 3)
	setDefault(&o.Blocks, 3)
	setDefault(&o.Channels, 32)
	setDefault(&o.Side, 32)
	setDefault(&o.Classes, 10)
	err := checkSizes("cnn",
		[]size{{"Stages", o.Stages}, {"Blocks", o.Blocks}, {"Channels", o.Channels}, {"Side", o.Side},
			{"Classes", o.Classes}})
	switch {
	case err != nil:
	case o.Stages > 16:
		err = fmt.Errorf("cnn: Stages is %d; it must be in [1, 16]", o.Stages)
	case o.Side%(1<<(o.Stages-1)) != 0:
		err = fmt.Errorf("cnn: Side is %d, which cannot be halved %d times; choose a multiple of %d",
			o.Side, o.Stages-1, 1<<(o.Stages-1))
	case o.Channels<<(o.Stages-1) > maxSize:
		err = fmt.Errorf("cnn: %d Channels doubled %d times are more than %d; choose fewer",
			o.Channels, o.Stages-1, maxSize)
	}
	return o, err
}

// cnn is a tape and the running statistics that it has made.
type cnn struct {
	*tape
	running []runningStat
}

type runningStat struct {
	after *value
	dims  int
}

// CNN returns the training graph of a residual network after "Deep Residual Learning for Image
// Recognition" (He et al., 2015, section 4.2): a 3×3 convolution, then stages of blocks of two 3×3
// convolutions with batch normalization, then an average over the picture and a Gemm. Inputs:
// pictures float[batch, 3, Side, Side] and labels int64[batch], then weights and, after those of
// each norm, its running statistics. Outputs: the gradients of all weights, then the running
// statistics after the step.
func CNN(o CNNOptions) (*graph.Model, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	t := &cnn{tape: newTape(newBuilder("cnn", ortOpsets()...))}
	x := t.data("pictures", graph.Float32, dims("batch", 3, o.Side, o.Side))
	labels := t.data("labels", graph.Int64, dims("batch"))

	channels, side := o.Channels, o.Side
	x = t.relu("/relu/Relu", t.convNorm("", "1", x, 3, channels, 3, 1))
	in := channels
	for s := range o.Stages {
		if s > 0 {
			channels, side = 2*channels, side/2
		}
		for b := range o.Blocks {
			x = t.block(fmt.Sprintf("layer%d.%d", s+1, b), x, in, channels)
			in = channels
		}
	}
	x = t.flatten("/Flatten", t.globalAveragePool("/avgpool/GlobalAveragePool", x, side*side))
	t.yieldLoss(t.module("fc", x, channels, o.Classes), labels)
	for _, r := range t.running {
		t.output(r.after.id, graph.Tensor(graph.Float32, dims(r.dims)))
	}
	return t.finish()
}

// block is relu(x + norm(conv(relu(norm(conv(x)))))). Where the number of
// channels changes, the first convolution has stride 2 and x passes a 1×1 convolution of
// the same stride.
func (t *cnn) block(module string, x *value, in, out int) *value {
	scope, stride := scopeOf(module), 1
	if in != out {
		stride = 2
	}
	y := t.convNorm(module, "1", x, in, out, 3, stride)
	y = t.relu(scope+"/relu/Relu", y)
	y = t.convNorm(module, "2", y, out, out, 3, 1)
	if in != out {
		x = t.convNorm(module, "_downsample", x, in, out, 1, stride)
	}
	return t.relu(scope+"/relu_1/Relu", t.add(scope+"/Add", y, x))
}

// convNorm is a convolution and its batch normalization.
func (t *cnn) convNorm(module, suffix string, x *value, in, out, kernel, stride int) *value {
	conv, norm := "conv"+suffix, "bn"+suffix
	if module != "" {
		conv, norm = module+"."+conv, module+"."+norm
	}
	w := t.weight(conv+".weight", graph.Float32, out, in, kernel, kernel)
	scale := t.weight(norm+".weight", graph.Float32, out)
	bias := t.weight(norm+".bias", graph.Float32, out)
	mean := t.data(norm+".running_mean", graph.Float32, dims(out))
	variance := t.data(norm+".running_var", graph.Float32, dims(out))
	y := t.conv(scopeOf(conv)+"/Conv", x, w, int64(kernel), int64(stride))
	y, newMean, newVariance := t.batchNorm(scopeOf(norm)+"/BatchNormalization", y, scale, bias, mean, variance)
	t.running = append(t.running, runningStat{newMean, out}, runningStat{newVariance, out})
	return y
}
