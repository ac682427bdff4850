package graphtest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Sample is one of the models for developers that are kept beside the repository.
type Sample struct {
	Name   string // of the model, in subtests
	Folder string
	File   string // the model
}

// Samples says which of them a test is about. A test runs on the models that are listed here and on
// no other: one more file beside the repository changes nothing, one that is missing is an error.
type Samples uint8

const (
	// Tiny are PyTorch exports with weights, test data, and gradients of PyTorch's.
	Tiny Samples = 1 << iota
	// Structures are PyTorch exports of usual size, without weights.
	Structures
	// ORTGraphs are training graphs that ONNX Runtime made.
	ORTGraphs
	// AllSamples are all of them.
	AllSamples = Tiny | Structures | ORTGraphs
)

// samplesFolder lies beside the root of the module.
const samplesFolder = "../shared/models"

var (
	tinySamples = []string{"cnn_bn_tiny", "gpt2_tiny", "gpt2_tiny_logits", "gpt2_tiny_op17_untied", "gru_tiny",
		"gru_unrolled_tiny", "lenet_tiny", "mlp_bce_tiny",
		"mlp_deep_smooth_tiny", "mlp_dropout_bn_tiny", "mlp_tiny", "mlp_tiny_logits", "mobile_tiny", "resmlp_mse_tiny",
		"resnet_tiny"}
	structureSamples = []string{"densenet121", "gpt2_124m", "gpt2_124m_op17_logits", "gpt2_6l_256", "gpt2_medium",
		"mlp_8x1024", "resnet18", "resnet50", "vgg11_bn"}
	ortSamples = []string{"3layer_bloom_optimized_training", "recompute_gelu", "recompute_tile", "training_model"}
)

// tester is the part of testing.TB that Files needs.
type tester interface {
	Helper()
	Skipf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Files lists the samples of the given sets. It skips the test if all are missing.
func (s Samples) Files(t tester) []Sample {
	t.Helper()
	list, err := s.Find()
	if err != nil {
		t.Fatalf("%v", err)
	}
	if list == nil {
		t.Skipf("the sample models are missing; they lie beside the project in %s", samplesFolder)
	}
	return list
}

// Find lists the samples of the given sets, an empty list without their folder. It is an error if
// some are missing while others are there.
func (s Samples) Find() ([]Sample, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	root = filepath.Join(root, samplesFolder)
	if _, err := os.Stat(root); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	list := s.in(root)
	for _, x := range list {
		if _, err := os.Stat(x.File); err != nil {
			return nil, fmt.Errorf("sample model %s: %w", x.Name, err)
		}
	}
	return list, nil
}

// in lists the samples with their paths.
func (s Samples) in(root string) (list []Sample) {
	var names []string
	for set, of := range map[Samples][]string{Tiny: tinySamples, Structures: structureSamples} {
		if s&set != 0 {
			names = append(names, of...)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		folder := filepath.Join(root, name)
		list = append(list, Sample{name, folder, filepath.Join(folder, "model.onnx")})
	}
	if s&ORTGraphs != 0 {
		folder := filepath.Join(root, "ort")
		for _, name := range ortSamples {
			list = append(list, Sample{name, folder, filepath.Join(folder, name+".onnx")})
		}
	}
	return list
}

// moduleRoot is the folder of go.mod, upwards from where the test runs.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", os.ErrNotExist
		}
		dir = up
	}
}
