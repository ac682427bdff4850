package op

import "memopt/graph"

// usualBFloat16 is the operator set that admitted bfloat16 to most operators.
const usualBFloat16 = 13

// laterBFloat16 lists the operators that got it later: by the first operator set whose type
// constraints name it (ONNX's operator specification).
var laterBFloat16 = map[int][]graph.Kind{
	14: {BatchNormalization, CumSum, Trilu},
	16: {GreaterOrEqual, If, LeakyRelu, LessOrEqual, Loop, PRelu, Scan, Where},
	17: {LayerNormalization},
	20: {ConstantOfShape},
	22: {Acos, Acosh, Asin, Asinh, Atan, Atanh, AveragePool, Conv, ConvTranspose, Cos, Cosh, Det, Elu, EyeLike,
		GlobalAveragePool,
		GlobalLpPool, GlobalMaxPool, GridSample, GRU, HardSigmoid, HardSwish, InstanceNormalization, LpNormalization,
		LpPool, LSTM, MaxPool,
		MaxUnpool, Mish, RNN, Round, Selu, Sin, Sinh, Softplus, Softsign, Tan, ThresholdedRelu},
	24: {TopK},
}

var bfloat16Since = func() (since [NumKinds]int) {
	for k := range since {
		since[k] = usualBFloat16
	}
	for version, kinds := range laterBFloat16 {
		for _, k := range kinds {
			since[k] = version
		}
	}
	return since
}()

// BFloat16Since returns the first set of ONNX's own operators that admits bfloat16 as an operand of
// an operator.
func BFloat16Since(k graph.Kind) int64 { return int64(bfloat16Since[k]) }
