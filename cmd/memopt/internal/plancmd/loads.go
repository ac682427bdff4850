package plancmd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"memopt"
	"memopt/cmd/memopt/internal/cli"
	"memopt/executor/ort"
	"memopt/executor/ort/ortengine"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/onnx"
	"memopt/internal/cleanup"
	"memopt/internal/memlimit"
)

// loadTime bounds how long stock ONNX Runtime may take to open a file that apply has written.
const loadTime = 5 * time.Second

// TryStock opens a rewritten model once in stock ONNX Runtime, where that is installed, and warns if it
// refuses the file though it takes the graph as it was. file is where the model was written: a path, or
// cli.StreamName for standard output. Graphs with a YieldOp, which only the training build runs, are not
// tried, nor are files without time or memory for it.
func TryStock(a *cli.App, file string, r *memopt.Rewritten) {
	p := r.By
	if p.Analysis.Boundary.Kind == live.YieldBoundary ||
		memlimit.Check(2*p.Persistent, "weights that ONNX Runtime opens a file with") != nil {
		return
	}
	path, err := os.Executable()
	if err != nil {
		return
	}
	folder, item, err := cleanup.Folder("", "memopt-ort-")
	if err != nil {
		return
	}
	defer item.Undo()
	ctx, cancel := context.WithTimeout(a.Ctx, loadTime)
	defer cancel()
	engine := &ortengine.Engine{Program: cli.OrtProgram(path), Options: ort.Options{Threads: 1}}
	if file == cli.StreamName {
		if file, err = written(folder, "rewritten.onnx", r.Model); err != nil {
			return
		}
	}
	version, err := engine.Loads(ctx, file)
	if refusal := RefusedBy(err); refusal != nil {
		before, err := written(folder, "original.onnx", p.Of.Model)
		if err != nil {
			return
		}
		if _, err := engine.Loads(ctx, before); err == nil {
			a.Warn("stock ONNX Runtime %s takes the graph as it was, but not the file: %v; --anchor off writes one "+
				"without anchors; please report this", version, refusal)
		}
	}
}

// RefusedBy returns the runtime's refusal of a file. It is nil where a library is missing or the time ran
// out, for then the file may be right.
func RefusedBy(err error) error {
	var missing *ort.MissingError
	var e *ortengine.Error
	if errors.As(err, &missing) || !errors.As(err, &e) || e.OutOfMemory() {
		return nil
	}
	return e
}

// written writes a model into a folder of temporary files.
func written(folder, name string, m *graph.Model) (string, error) {
	path := filepath.Join(folder, name)
	return path, onnx.WriteFile(path, m, onnx.Options{ExternalDataThreshold: ortengine.ExternalData(m.Graph)})
}
