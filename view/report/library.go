package report

import (
	"fmt"

	"memopt/executor/verify"
)

// libraryJSON says what cuDNN did, and what its workspaces cost.
type libraryJSON struct {
	Convolutions int `json:"convolutions"` // and gradients of such
	ByLibrary    int `json:"by_library"`
	// Own counts what the device's own kernels computed, by reason.
	Own map[string]int `json:"own_kernels,omitempty"`
	// Workspace is the most of the arena that one convolution was lent; beside it stand what it and
	// the peak of live bytes would be with --cudnn-conv-use-max-workspace off.
	Workspace   int64 `json:"workspace_bytes"`
	Clamped     int64 `json:"clamped_workspace_bytes"`
	ClampedLive int64 `json:"clamped_predicted_live_bytes"`
}

// newLibraryJSON sums up a run's convolutions; nil if there are none that a library could do.
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

// libraryRows adds what cuDNN did.
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

// clamped says what a smaller workspace would change.
func (j *libraryJSON) clamped() string {
	if j.Clamped >= j.Workspace {
		return "as much with --cudnn-conv-use-max-workspace off"
	}
	return fmt.Sprintf("with --cudnn-conv-use-max-workspace off %s, and %s predicted live",
		Bytes(j.Clamped), Bytes(j.ClampedLive))
}

func joined(a, b string) string {
	if b == "" {
		return a
	}
	return a + "; " + b
}
