package report

import (
	"fmt"

	"memopt/executor/verify"
	"memopt/hint"
)

// libraryJSON describes cuDNN's work, and the costs of its workspaces.
type libraryJSON struct {
	Convolutions int `json:"convolutions"` // and gradients of such
	ByLibrary    int `json:"by_library"`
	// Own counts the nodes computed by the device's own kernels, by reason.
	Own map[string]int `json:"own_kernels,omitempty"`
	// Workspace is the largest part of the arena lent to one convolution; beside it stand its value
	// and the peak of live bytes with --cudnn-conv-use-max-workspace off.
	Workspace   int64 `json:"workspace_bytes"`
	Clamped     int64 `json:"clamped_workspace_bytes"`
	ClampedLive int64 `json:"clamped_predicted_live_bytes"`
}

// newLibraryJSON sums up a run's convolutions; nil if a library could do none of them.
func newLibraryJSON(r *verify.Run) *libraryJSON {
	if len(r.LibraryNodes) == 0 {
		return nil
	}
	j := &libraryJSON{ClampedLive: r.Predicted.LeastLive}
	for _, n := range r.LibraryNodes {
		j.Convolutions++
		j.Workspace, j.Clamped = max(j.Workspace, n.Workspace), max(j.Clamped, n.Least)
		if n.Own == "" {
			j.ByLibrary++
			continue
		}
		if j.Own == nil {
			j.Own = map[string]int{}
		}
		j.Own[n.Own]++
	}
	return j
}

// libraryRows adds cuDNN's work.
func (t *Table) libraryRows(r *verify.Run) {
	j := newLibraryJSON(r)
	if j == nil {
		return
	}
	own := ""
	for _, n := range r.LibraryNodes {
		if n.Own != "" {
			own = fmt.Sprintf("own kernels for the others, such as %s: %s", n.Label, n.Own)
			break
		}
	}
	t.Add("convolutions", fmt.Sprintf("%d of %d", j.ByLibrary, j.Convolutions), joined("by cuDNN", own))
	if j.Workspace > 0 {
		t.Add("cuDNN workspace",
			Bytes(j.Workspace), fmt.Sprintf("of the arena, for one convolution at a time; %s", j.clamped()))
	}
}

// clamped describes the effect of a smaller workspace.
func (j *libraryJSON) clamped() string {
	if j.Clamped >= j.Workspace {
		return fmt.Sprintf("as much with %v", hint.ConvWorkspace.With("off"))
	}
	return fmt.Sprintf("with %v %s, and %s predicted live", hint.ConvWorkspace.With("off"),
		Bytes(j.Clamped), Bytes(j.ClampedLive))
}

func joined(a, b string) string {
	if b == "" {
		return a
	}
	return a + "; " + b
}
