package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"memopt/internal/cleanup"
	"memopt/train"
	"memopt/train/collective"
	"memopt/train/mpi"
	"memopt/view/report"
)

// rankFlags say how the ranks of a job work together.
type rankFlags struct {
	zero    int
	reduce  string
	bucket  string
	timeout int
	library string
	asked   int // ranks of a dry run
}

func (r *rankFlags) register(f *pflag.FlagSet) {
	numberVar(f, &r.zero, "zero", "", 0, bounds{least: 0, most: 2}, "what ranks that mpirun starts share by ZeRO: "+
		"1 the optimizer's states, 2 gradients, too; 0: nothing")
	f.StringVar(&r.reduce, "reduce", "fast", "how gradients are added up: fast, as MPI does; or exact, in the order "+
		"of the ranks, which has the bits of one rank that accumulates")
	f.StringVar(&r.bucket, "bucket-size", "auto", "bytes of gradients that leave together, while backward goes on; "+
		"auto: an eighth of all, 1 MiB to 25 MiB")
	numberVar(f, &r.timeout, "timeout", "", 1800, positive, "seconds that a rank waits for the others before the "+
		"job ends")
	numberVar(f, &r.asked, "ranks", "", 0, notNegative, "with --dry-run: what each of so many ranks would take")
	f.StringVar(&r.library, "mpi-library", "", "file of the MPI library; default: that of the launcher")
}

// quietError is an error that another rank prints.
type quietError struct{ error }

func (e *quietError) Unwrap() error { return e.error }

// rankState is the state of a job with several ranks.
type rankState struct {
	launch   mpi.Launch
	group    collective.Group // nil: there is one rank
	together bool             // all ranks end the job alike
}

// rank is which rank this is.
func (s *rankState) rank() int { return s.launch.Rank }

// openRanks joins the other ranks, where a launcher has started several. From then on rank 0 alone
// reports.
func (t *training) openRanks() (err error) {
	t.launch, err = mpi.Find(func(name string) string { text, _ := t.env(name); return text })
	if err != nil {
		return usage("%w", err)
	}
	switch {
	case t.asked > 0 && !t.dryRun:
		return usage("--ranks %d: is for --dry-run; mpirun -n %d starts so many", t.asked, t.asked)
	case t.asked > 0:
		t.launch = mpi.Launch{Size: t.asked, LocalSize: 1}
		return nil
	case t.launch.Size == 1:
		if t.zero > 0 {
			t.note("--zero %d: there is one rank, which has everything; mpirun -n N starts several", t.zero)
		}
		return nil
	}
	if t.rank() > 0 {
		t.app.out = nowhere{}
		t.keeper.tell() // rank 0 does, and a launcher ends the others by a signal where one fails
	}
	o := mpi.Options{Launch: t.launch, Library: t.library, Exact: t.reduce == "exact",
		Timeout: time.Duration(t.timeout) * time.Second}
	if t.global.verbose {
		o.Log = func(text string) { t.note("rank %d: %s", t.rank(), text) }
	}
	if t.group, err = mpi.Open(t.ctx, o); err != nil {
		if t.ctx.Err() != nil {
			return &exitError{exitInterrupted, err}
		}
		return &exitError{exitMissing, err}
	}
	if t.rank() > 0 {
		t.global.quiet = true
	}
	if n := t.launch.LocalSize; n > 1 && t.global.threads == 0 {
		t.global.threads = max(1, runtime.NumCPU()/n)
	}
	t.config.Ranks, t.config.Keeps = t.group, t.out != ""
	return nil
}

// ownFlagsOfRanks are the flags that ranks may have each of their own: files, whose contents are compared, and
// flags that do not change the job.
var ownFlagsOfRanks = []string{"data", "eval-data", "init", "resume", "out", "config", "cost", "device", "aliases",
	"plan", "mpi-library", "timeout", "threads", "mem-limit", "blocking", "profile", "logging-steps",
	"save-total-limit", "output", "quiet", "verbose", "wide", "color", "no-chart"}

// compareFlags requires all ranks to have the same flags, but for their own.
func (t *training) compareFlags() error {
	if t.group == nil {
		return nil
	}
	var names, values []string
	t.set.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(ownFlagsOfRanks, f.Name) {
			names, values = append(names, f.Name), append(values, f.Value.String())
		}
	})
	known := sha256.Sum256([]byte(strings.Join(append(names, thisBuild().Version), "\n")))
	all, err := t.exchange(known[:])
	if err != nil {
		return lostGroup(err)
	}
	for r := range t.group.Size() {
		if string(all[r*len(known):][:len(known)]) != string(all[:len(known)]) {
			return usage("rank %d has another version of memopt than rank 0; give all of them the same program", r)
		}
	}
	var mine []byte
	for _, text := range values {
		sum := sha256.Sum256([]byte(text))
		mine = append(mine, sum[:]...)
	}
	if all, err = t.exchange(mine); err != nil {
		return lostGroup(err)
	}
	return differing(all, len(mine), func(i int) string { return "--" + names[i] })
}

// differing names the hashes, so many bytes of each rank, that differ from rank 0's.
func differing(all []byte, size int, name func(i int) string) error {
	var differ []string
	for rank := range len(all) / size {
		its := all[rank*size:]
		var what []string
		for at := 0; at < size; at += sha256.Size {
			if string(its[at:at+sha256.Size]) != string(all[at:at+sha256.Size]) {
				what = append(what, name(at/sha256.Size))
			}
		}
		if len(what) > 0 {
			differ = append(differ, fmt.Sprintf("rank %d has another %s", rank, strings.Join(what, ", ")))
		}
	}
	if len(differ) == 0 {
		return nil
	}
	return usage("the ranks have not come to the same job: %s than rank 0; give all of them the same program, "+
		"files and flags", strings.Join(differ, "; "))
}

// checkRanks refuses flags that ranks cannot have.
func (t *training) checkRanks() error {
	if t.reduce != "fast" && t.reduce != "exact" {
		return usage("--reduce %q: wanted fast or exact", t.reduce)
	}
	if t.ranks() > 1 && t.trainFlags.engine.backend != "cpu" {
		return usage("train -e %s: several ranks train on -e cpu only", t.trainFlags.engine.backend)
	}
	return nil
}

// nowhere takes a report that another rank prints.
type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }

// ranks is how many ranks there are.
func (t *training) ranks() int64 { return int64(max(t.launch.Size, 1)) }

// setRanks says in the recipe which ranks there are.
func (t *training) setRanks() error {
	r := &t.recipe.Optimizer.Ranks
	r.Count, r.Zero = t.launch.Size, t.zero
	if t.bucket != "auto" {
		n, err := report.ParseBytes(t.bucket)
		if err != nil || n < 1 {
			return usage("--bucket-size %q: wanted auto, or a size of at least one byte, such as 25MiB", t.bucket)
		}
		r.BucketBytes = n
	}
	t.recipe.Apart = t.reduce == "exact"
	if t.group != nil && t.trainFlags.step.micros > 1 && t.zero == 2 {
		t.note("--zero 2 shards gradients where each step is an update; with --gradient-accumulation-steps their " +
			"sums are whole, and it is --zero 1")
	}
	return nil
}

// exchange gathers a message of each rank.
func (t *training) exchange(mine []byte) ([]byte, error) {
	all := make([]byte, len(mine)*t.group.Size())
	return all, t.group.Exchange(mine, all)
}

// agree ends the preparation on all ranks where it has failed on one. The error is printed by the first
// of the ranks that have it.
func (t *training) agree(err error) error {
	if t.group == nil {
		return err
	}
	code, text := 0, ""
	if err != nil {
		code, text = codeOf(err), err.Error()
	}
	h := fnv.New64a()
	h.Write([]byte(text))
	mine := binary.LittleEndian.AppendUint64(nil, uint64(code))
	mine = binary.LittleEndian.AppendUint64(mine, h.Sum64())
	all, e := t.exchange(mine)
	if e != nil {
		return lostGroup(e)
	}
	for r := range t.group.Size() {
		its := all[16*r:]
		if n := int(binary.LittleEndian.Uint64(its)); n != 0 {
			t.together = true
			switch {
			case err == nil, r < t.rank() && string(its[8:16]) == string(mine[8:16]):
				return &exitError{n, &quietError{fmt.Errorf("rank %d has ended the job", r)}}
			case r == t.rank():
				return err
			}
		}
	}
	return err
}

// codeOf is the exit code of an error.
func codeOf(err error) int {
	var e *exitError
	if errors.As(err, &e) {
		return e.code
	}
	return exitUsage
}

// lostGroup is an error of the group of ranks: one of them, or the library, does not answer, or a fault of memopt.
func lostGroup(err error) error {
	if ofMPI(err) {
		return &exitError{exitMissing, err}
	}
	return &exitError{exitInternal, err}
}

// ofMPI reports whether an error says that ranks or the library do not answer as they should.
func ofMPI(err error) bool {
	var late *mpi.TimeoutError
	var library *mpi.Error
	return errors.As(err, &late) || errors.As(err, &library)
}

// leave ends this rank. An error that the others do not know of ends them, too. What is to be said is said
// before the ranks part: a launcher ends all of them when the first one ends with an error.
func (t *training) leave(err error) error {
	var elsewhere *train.ElsewhereError
	switch {
	case t.group == nil:
		return err
	case errors.As(err, &elsewhere):
		err = &exitError{codeOf(err), &quietError{err}}
	case err != nil && !t.together:
		t.complain(fmt.Errorf("rank %d: %w", t.rank(), err))
		cleanup.All()
		t.group.Abort(codeOf(err))
	}
	t.app.flush()
	var quiet *quietError
	if err != nil && !errors.As(err, &quiet) {
		code := codeOf(err)
		if code == exitInterrupted {
			code = endCode(t.ctx)
		}
		t.complain(err)
		err = &exitError{code, &quietError{err}}
	}
	if err != nil {
		t.keeper.tell() // the launcher may end this rank while it parts from the others
	}
	if e := t.group.Close(); err == nil && e != nil {
		return lostGroup(e)
	}
	return err
}

// onFirst makes an end that all ranks have come to one that rank 0 reports.
func (t *training) onFirst(err error) error {
	t.together = true
	if err == nil || t.rank() == 0 {
		return err
	}
	return &exitError{codeOf(err), &quietError{err}}
}

// shareRows settles the samples of a step: the fewest of all ranks where each finds its own.
func (t *training) shareRows(rows int64) (int64, error) {
	if t.group == nil {
		return rows, nil
	}
	all, err := t.exchange(binary.LittleEndian.AppendUint64(nil, uint64(rows)))
	if err != nil {
		return 0, lostGroup(err)
	}
	least := int64(math.MaxInt64)
	for r := range t.group.Size() {
		least = min(least, int64(binary.LittleEndian.Uint64(all[8*r:])))
	}
	return least, nil
}

// compareRanks requires all ranks to have come to the same job.
func (t *training) compareRanks() error {
	if t.group == nil {
		return nil
	}
	parts, err := t.identity()
	if err != nil {
		return err
	}
	var mine []byte
	for _, p := range parts {
		text, err := json.Marshal(p.value)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(text)
		mine = append(mine, sum[:]...)
	}
	all, err := t.exchange(mine)
	if err != nil {
		return lostGroup(err)
	}
	return differing(all, len(mine), func(i int) string { return parts[i].name })
}

// identityPart is a part of the job that all ranks must share.
type identityPart struct {
	name  string
	value any
}

// identity lists the parts that all ranks must share.
func (t *training) identity() ([]identityPart, error) {
	c, m := &t.config, &t.config.Manifest
	eval, resumed := "", ""
	var err error
	if c.Eval != nil {
		if eval, err = c.Eval.Identity(); err != nil {
			return nil, usage("--eval-data: %w", err)
		}
	}
	if c.Resume != nil {
		resumed = fmt.Sprint(c.Resume.Step, c.Resume.Files)
	}
	return []identityPart{
		{"version of memopt", thisBuild()},
		{"model", m.Model}, {"data", m.Data.Identity}, {"data for evaluation", eval}, {"checkpoint", resumed},
		{"sizes of dims", m.Dims}, {"plan", m.Plan}, {"optimizer", m.Optimizer}, {"schedule", m.Schedule},
		{"seed", []uint64{m.Seed, m.DataSeed}},
		{"samples of a step", []any{c.Order, c.Micros, c.Updates}},
		{"sequence of checkpoints and evaluations", []any{c.EvalEvery, c.SaveEvery, c.Keeps, c.OnNaN}},
		{"choice of --zero, --reduce or --bucket-size", []any{t.recipe.Optimizer.Ranks, t.reduce}},
		{"first weights", []any{t.init, c.RandomSeed}},
	}, nil
}

// canceled is the error of a job that was asked to end before it began.
func (t *training) canceled() error {
	if t.ctx.Err() != nil {
		return classify(context.Canceled)
	}
	return nil
}
