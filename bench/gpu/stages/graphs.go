package stages

import (
	"bytes"
	"os"
	"path/filepath"
)

// graphModels are models whose steps are captured, one of them with dropout.
func (r *runner) graphModels() []string {
	if r.toy {
		return []string{"mlp_tiny", "mlp_dropout_bn_tiny"}
	}
	return []string{"mlp_tiny", "mlp_dropout_bn_tiny", "lenet_tiny", "resnet_tiny", "gpt2_tiny",
		"gpt2_tiny_op17_untied", "mlp_8x1024", "gpt2_6l_256", "resnet18"}
}

// runGraphs compares steps that are captured with steps that are not.
func runGraphs(r *runner) {
	for _, name := range r.graphModels() {
		if m := r.named(name); m != nil {
			r.captured(m)
		}
	}
}

// captured runs six steps of a model both ways and compares the results of the last one.
func (r *runner) captured(m *model) {
	var reports [2]runReport
	var files [2][]byte
	for i, flag := range []string{"--cuda-graph=false", "--cuda-graph"} {
		file := filepath.Join(r.tmp, m.name+[]string{".npz", ".graph.npz"}[i])
		a := r.onDevice(&reports[i], "run",
			m.file, append(m.inputs(nil), "--level", "1", "--warmup", "3", "-r", "5", "--save-outputs", file, flag)...)
		if a.code != 0 {
			r.row(m.name, Fail, flag+": "+a.why())
			return
		}
		var err error
		if files[i], err = os.ReadFile(file); err != nil {
			r.row(m.name, Fail, err.Error())
			return
		}
	}
	if why := reports[1].NotCaptured; why != "" {
		r.row(m.name, NotAvailable, "its steps are not captured: "+why)
		return
	}
	r.judge(m.name, bytes.Equal(files[0], files[1]), "the last step's outputs differ",
		Figure{"step", reports[0].Time.Median, "ms"}, Figure{"captured", reports[1].Time.Median, "ms"})
}
