package traincmd

import (
	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/option"
	"memopt/executor"
	"memopt/train/checkpoint"
	"memopt/view/report"
)

// A home (--host-dir) is the folder that the states of a job lie in.

// checkHome refuses flags that do not go together with a home.
func (t *training) checkHome() error {
	if t.hostDir == "" || t.evalOnly {
		return nil
	}
	if _, _, err := option.ReadHome(&t.moves, t.hostDir); err != nil {
		return err
	}
	if t.ranks() > 1 {
		return cli.Usage("--host-dir: the states of several ranks stay in memory: leave it out, or train with one rank")
	}
	return nil
}

// checkHomeOn refuses a home where the states are in another memory than that of files.
func (t *training) checkHomeOn() error {
	if t.hostDir == "" || t.evalOnly {
		return nil
	}
	if d := t.engine.Traits().Device; d != nil {
		if _, apart := d.(executor.Accelerator); !apart {
			return nil
		}
	}
	return cli.Usage("train -e %s: its states are in a memory of its own: leave out --host-dir, or take -e cpu",
		t.trainFlags.engine.Backend)
}

// homeFits refuses states that take more of the home than there may be, and leaves the rest of --host-budget to values
// that move.
func (t *training) homeFits(rows int64) error {
	if t.hostDir == "" || t.evalOnly {
		return nil
	}
	o, err := t.moves.Options()
	if err != nil {
		return err
	}
	need, err := t.steps.HomeBytes(rows)
	if err != nil {
		return cli.Classify(err)
	}
	if err := option.HomeFits(need, o.HostBudget); err != nil {
		return err
	}
	t.moving.HostBudget = max(min(t.moving.HostBudget, o.HostBudget-need), 0)
	t.view.Home = &report.TrainHome{Folder: t.hostDir, Bytes: need, Budget: o.HostBudget}
	return nil
}

// openHome takes the folder of the states.
func (t *training) openHome() (err error) {
	if t.hostDir == "" || t.dryRun || t.evalOnly {
		return nil
	}
	if t.config.Home, err = checkpoint.OpenHome(t.hostDir); err != nil {
		return cli.FileError("--host-dir %w", err)
	}
	t.sources = append(t.sources, t.config.Home)
	return nil
}

// refuseOldHome keeps a job from writing over the states of another one.
func (t *training) refuseOldHome() error {
	h := t.config.Home
	if h == nil || h.Owns(t.config.Resume) {
		return nil
	}
	m, err := h.Has()
	if err != nil {
		return cli.FileError("--host-dir: %w; name another folder, or remove its files", err)
	}
	r := t.config.Resume
	if m != nil && (r == nil || m.Step > r.Step || m.Model.StructureSHA256 != r.Model.StructureSHA256 ||
		m.Data.Identity != r.Data.Identity) {
		return cli.Usage("--host-dir %s: has the states of a job after update %d: go on with --resume=%s, or name "+
			"another folder", t.hostDir, m.Step, t.hostDir)
	}
	return nil // states of this job before the checkpoint that it goes on with
}

// resumed is the folder of the checkpoint that --resume goes on after: of -o and of --host-dir the one that has made
// more updates.
func (t *trainFlags) resumed() string {
	if t.resume != newest {
		return t.resume
	}
	if t.hostDir == "" {
		return t.out
	}
	there, err := checkpoint.ReadManifest(t.hostDir)
	if err != nil && t.out != "" {
		return t.out
	}
	if t.out != "" {
		if m, err := checkpoint.ReadManifest(t.out); err == nil && (m.Step > there.Step || there.Lost() != nil) {
			return t.out
		}
	}
	return t.hostDir
}
