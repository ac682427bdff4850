package recompute

import (
	"fmt"
	"strings"
)

// Probe says how far the search for candidates goes. It is written "L" or
// "L:B", as ONNX Runtime's session option optimization.enable_memory_probe_recompute_config is.
type Probe struct {
	// Level 0 takes cheap operators, level 1 products, norms and softmax too.
	Level int
	// Layers says that the stashed inputs of the norms that bound transformer layers
	// are kept: recomputation never reaches beyond its layer.
	Layers bool
}

// ParseProbe reads "L" or "L:B" with L and B each 0 or 1; the empty text is
// "0:0".
func ParseProbe(text string) (Probe, error) {
	if text == "" {
		return Probe{}, nil
	}
	level, layers, _ := strings.Cut(text, ":")
	if layers == "" && !strings.Contains(text, ":") {
		layers = "0"
	}
	if level != "0" && level != "1" || layers != "0" && layers != "1" {
		return Probe{}, fmt.Errorf("probe %q: wanted LEVEL or LEVEL:LAYERS, each 0 or 1, for example 1:1", text)
	}
	return Probe{Level: int(level[0] - '0'), Layers: layers == "1"}, nil
}

// String returns the probe as "L:B".
func (p Probe) String() string {
	layers := 0
	if p.Layers {
		layers = 1
	}
	return fmt.Sprintf("%d:%d", p.Level, layers)
}
