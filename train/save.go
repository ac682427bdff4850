package train

import (
	"context"
	"errors"
	"fmt"

	"memopt/internal/fileio"
)

// after handles the end of an update: reports, evaluations and checkpoints that are due.
func (j *job) after(ctx context.Context, m *Metrics) error {
	due := func(every int64) bool { return every > 0 && j.done%every == 0 }
	if due(j.Logging) || j.done == j.Updates || j.done == 1 {
		j.log(m)
	}
	if j.eval != nil && due(j.EvalEvery) {
		if _, err := j.evaluate(ctx); err != nil {
			return err
		}
	}
	if due(j.SaveEvery) && j.done < j.Updates && (j.Home == nil || j.Copies) {
		// The job goes on without a checkpoint that could not be written.
		path, err := j.save()
		var lost *GroupError
		if errors.As(err, &lost) {
			return err
		}
		j.Observer.Saved(path, err)
	}
	return nil
}

// finish ends a job whose loop has ended without an error: with an evaluation, if all updates are made,
// and a checkpoint.
func (j *job) finish(ctx context.Context) error {
	if j.eval != nil && !j.result.Stopped {
		if _, err := j.evaluate(ctx); err != nil {
			return err
		}
	}
	j.measured()
	if err := j.arenasOfRanks(); err != nil {
		return err
	}
	if err := j.keep(true); err != nil {
		return callerError("the last checkpoint: %w", err)
	}
	if j.Home != nil && !j.Copies {
		j.result.Saved = j.Home.Dir()
		return nil
	}
	if j.Folder == nil && !j.keeps() {
		return nil
	}
	path, err := j.save()
	j.Observer.Saved(path, err)
	if err != nil {
		return callerError("the last checkpoint: %w", err)
	}
	return nil
}

// keep makes the states the checkpoint of the job's home. synced waits until they are on the disk.
func (j *job) keep(synced bool) error {
	if j.Home == nil {
		return nil
	}
	m, err := j.manifest()
	if err != nil {
		return err
	}
	if m.Plan = nil; synced {
		m.Plan = j.Manifest.Plan
	}
	return j.Home.Commit(m, synced)
}

// keepOn is keep after an update. The job goes on where it fails: the checkpoint before is whole.
func (j *job) keepOn() {
	err := j.keep(j.SaveEvery > 0 && j.done%j.SaveEvery == 0)
	if err != nil && !j.unkept {
		j.Observer.Saved("", err)
	}
	j.unkept = err != nil
}

// save writes a checkpoint and removes old ones. A checkpoint of this update may be there already.
func (j *job) save() (string, error) {
	if j.keeps() {
		return j.saveOfRanks()
	}
	return j.saveHere(j.machine.Read)
}

// makeRoom removes the oldest checkpoint of a job that may not keep all of them, where another one is left.
// Else a full disk would stay full: old checkpoints go when a new one is there.
func (j *job) makeRoom() bool {
	steps, err := j.Folder.Steps()
	if err != nil || j.SaveLimit < 1 || len(steps) < 2 {
		return false
	}
	if err := j.Folder.Prune(len(steps) - 1); err != nil {
		return false
	}
	j.Observer.Warn(fmt.Sprintf("the disk is full: the checkpoint of update %d is removed to save that of update %d",
		steps[0], j.done))
	return true
}

// saveHere writes a checkpoint whose tensors read gives.
func (j *job) saveHere(read func(name string, dst []byte) error) (string, error) {
	if j.Folder == nil || j.lastSaved == j.done && j.result.Saved != "" {
		return j.result.Saved, nil
	}
	m, err := j.manifest()
	if err != nil {
		return "", err
	}
	weights, others := j.entries()
	path, err := j.Folder.Save(m, weights, others, read)
	for fileio.Full(err) && j.makeRoom() {
		path, err = j.Folder.Save(m, weights, others, read)
	}
	if err != nil {
		return "", err
	}
	j.result.Saved, j.lastSaved = path, j.done
	if j.SaveLimit > 0 {
		err = j.Folder.Prune(j.SaveLimit)
	}
	return path, err
}
