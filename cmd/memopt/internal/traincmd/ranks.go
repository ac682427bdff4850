package traincmd

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"memopt/cmd/memopt/internal/cli"
	"memopt/internal/cleanup"
	"memopt/train"
	"memopt/train/mpi"
	"memopt/train/prepare"
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
	cli.NumberVar(f, &r.zero, "zero", "", 0, cli.Bounds{Least: 0, Most: 2},
		"the parts that ranks of mpirun share by ZeRO: 1 the optimizer's states, 2 gradients, too; 0: no part")
	f.StringVar(&r.reduce, "reduce", "fast", "how gradients are added up: fast, as MPI does; or exact, in the order "+
		"of the ranks, which has the bits of one rank that accumulates")
	f.StringVar(&r.bucket, "bucket-size", "auto", "bytes of gradients that leave together, while backward goes on; "+
		"auto: an eighth of all, 1 MiB to 25 MiB")
	cli.NumberVar(f, &r.timeout, "timeout", "", 1800, cli.Positive,
		"seconds that a rank waits for the others before the "+
			"job ends")
	cli.NumberVar(f, &r.asked, "ranks", "", 0, cli.NotNegative, "with --dry-run: the memory of each of so many ranks")
	f.StringVar(&r.library, "mpi-library", "", "file of the MPI library; default: that of the launcher")
}

// QuietError is an error that another rank prints.
type QuietError struct{ error }

func (e *QuietError) Unwrap() error { return e.error }

// rankState is the state of a job with several ranks.
type rankState struct {
	launch   mpi.Launch
	group    *prepare.Ranks // nil: there is one rank
	together bool           // all ranks end the job alike
}

// rank is which rank this is.
func (s *rankState) rank() int { return s.launch.Rank }

// openRanks joins the other ranks, where a launcher has started several. From then on rank 0 alone
// reports.
func (t *training) openRanks() (err error) {
	t.launch, err = mpi.Find(func(name string) string { text, _ := t.Env(name); return text })
	if err != nil {
		return cli.Usage("%w", err)
	}
	switch {
	case t.asked > 0 && !t.dryRun:
		return cli.Usage("--ranks %d: is for --dry-run; mpirun -n %d starts so many", t.asked, t.asked)
	case t.asked > 0:
		t.launch = mpi.Launch{Size: t.asked, LocalSize: 1}
		return nil
	case t.launch.Size == 1:
		if t.zero > 0 {
			t.Note("--zero %d: there is one rank, which has everything; mpirun -n N starts several", t.zero)
		}
		return nil
	}
	if t.rank() > 0 {
		t.App.Out = nowhere{}
		t.Keeper.Tell() // rank 0 does, and a launcher ends the others by a signal where one fails
	}
	o := mpi.Options{Launch: t.launch, Library: t.library, Exact: t.reduce == "exact",
		Timeout: time.Duration(t.timeout) * time.Second}
	if t.Global.Verbose {
		o.Log = func(text string) { t.Note("rank %d: %s", t.rank(), text) }
	}
	group, err := mpi.Open(t.Ctx, o)
	if err != nil {
		if t.Ctx.Err() != nil {
			return &cli.ExitError{Code: cli.ExitInterrupted, Err: err}
		}
		return &cli.ExitError{Code: cli.ExitMissing, Err: err}
	}
	t.group = &prepare.Ranks{Group: group}
	if t.rank() > 0 {
		t.Global.Quiet = true
	}
	if n := t.launch.LocalSize; n > 1 && t.Global.Threads == 0 {
		t.Global.Threads = max(1, runtime.NumCPU()/n)
	}
	t.config.Ranks, t.config.Keeps = group, t.out != ""
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
	parts := []prepare.Part{{Name: "version of memopt", Value: cli.ThisBuild().Version}}
	names := prepare.Part{Name: "list of flags"}
	var known []string
	t.set.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(ownFlagsOfRanks, f.Name) {
			known = append(known, f.Name)
			parts = append(parts, prepare.Part{Name: "--" + f.Name, Value: f.Value.String()})
		}
	})
	names.Value = known
	// The list goes first: ranks of other versions may have other flags, and so another number of parts.
	if err := t.group.Same(parts[0], names); err != nil {
		return ofRanks(err)
	}
	return ofRanks(t.group.Same(parts[1:]...))
}

// ofRanks gives an error of comparing ranks its code: usage where they differ, else one of the group.
func ofRanks(err error) error {
	var differ *prepare.DifferError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &differ):
		return cli.Usage("%w", err)
	}
	return lostGroup(err)
}

// checkRanks refuses flags that ranks cannot have.
func (t *training) checkRanks() error {
	if t.reduce != "fast" && t.reduce != "exact" {
		return cli.Usage("--reduce %q: wanted fast or exact", t.reduce)
	}
	if t.ranks() > 1 && t.trainFlags.engine.Backend != "cpu" {
		return cli.Usage("train -e %s: several ranks train on -e cpu only", t.trainFlags.engine.Backend)
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
			return cli.Usage("--bucket-size %q: wanted auto, or a size of at least one byte, such as 25MiB", t.bucket)
		}
		r.BucketBytes = n
	}
	t.recipe.Apart = t.reduce == "exact"
	if t.group != nil && t.trainFlags.step.Micros > 1 && t.zero == 2 {
		t.Note("--zero 2 shards gradients where each step is an update; with --gradient-accumulation-steps their " +
			"sums are whole, and it is --zero 1")
	}
	return nil
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
	failure, e := t.group.Agree(code, text)
	switch {
	case e != nil:
		return lostGroup(e)
	case failure == nil:
		return nil
	}
	t.together = true
	if failure.Rank == t.rank() {
		return err
	}
	return &cli.ExitError{Code: failure.Code, Err: &QuietError{fmt.Errorf("rank %d has ended the job", failure.Rank)}}
}

// codeOf is the exit code of an error.
func codeOf(err error) int {
	var e *cli.ExitError
	if errors.As(err, &e) {
		return e.Code
	}
	return cli.ExitUsage
}

// lostGroup is an error of the group of ranks: one of them, or the library, does not answer, or a fault of memopt.
func lostGroup(err error) error {
	if ofMPI(err) {
		return &cli.ExitError{Code: cli.ExitMissing, Err: err}
	}
	return &cli.ExitError{Code: cli.ExitInternal, Err: err}
}

// ofMPI reports whether an error says that ranks or the library do not answer as they should.
func ofMPI(err error) bool {
	var late *mpi.TimeoutError
	var library *mpi.Error
	return errors.As(err, &late) || errors.As(err, &library)
}

// leave ends this rank. An error that the others do not know of ends them, too. Messages are written
// before the ranks part: a launcher ends all of them when the first one ends with an error.
func (t *training) leave(err error) error {
	var elsewhere *train.ElsewhereError
	switch {
	case t.group == nil:
		return err
	case errors.As(err, &elsewhere):
		err = &cli.ExitError{Code: codeOf(err), Err: &QuietError{err}}
	case err != nil && !t.together:
		t.Complain(fmt.Errorf("rank %d: %w", t.rank(), err))
		cleanup.All()
		t.group.Group.Abort(codeOf(err))
	}
	t.App.Flush()
	var quiet *QuietError
	if err != nil && !errors.As(err, &quiet) {
		code := codeOf(err)
		if code == cli.ExitInterrupted {
			code = cli.EndCode(t.Ctx)
		}
		t.Complain(err)
		err = &cli.ExitError{Code: code, Err: &QuietError{err}}
	}
	if err != nil {
		t.Keeper.Tell() // the launcher may end this rank while it parts from the others
	}
	if e := t.group.Group.Close(); err == nil && e != nil {
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
	return &cli.ExitError{Code: codeOf(err), Err: &QuietError{err}}
}

// shareRows settles the samples of a step: the fewest of all ranks where each finds its own.
func (t *training) shareRows(rows int64) (int64, error) {
	if t.group == nil {
		return rows, nil
	}
	least, err := t.group.Least(rows)
	if err != nil {
		return 0, lostGroup(err)
	}
	return least, nil
}

// compareRanks requires all ranks to have come to the same job.
func (t *training) compareRanks() error {
	if t.group == nil {
		return nil
	}
	parts, err := t.job().Identity()
	if err != nil {
		return cli.Usage("%w", err)
	}
	return ofRanks(t.group.Same(parts...))
}

// canceled is the error of a job that was asked to end before it began.
func (t *training) canceled() error {
	if t.Ctx.Err() != nil {
		return cli.Classify(context.Canceled)
	}
	return nil
}
