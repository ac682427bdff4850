package train

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"memopt/autograd"
	"memopt/executor"
	"memopt/executor/resident"
	"memopt/graph"
	"memopt/train/data"
)

// ElsewhereError means that another rank has ended the job, for a reason that all ranks know of.
type ElsewhereError struct {
	Rank int
	Err  error
}

func (e *ElsewhereError) Error() string { return fmt.Sprintf("rank %d: %v", e.Rank, e.Err) }
func (e *ElsewhereError) Unwrap() error { return e.Err }

// GroupError is an error of the group of ranks that ends the group.
type GroupError struct{ err error }

func (e *GroupError) Error() string { return e.err.Error() }
func (e *GroupError) Unwrap() error { return e.err }

// lost marks an error of the group.
func lost(err error) error {
	if err == nil {
		return nil
	}
	return &GroupError{err}
}

// ranks is how many ranks the job has.
func (c *Config) ranks() int64 {
	if c.Ranks == nil {
		return 1
	}
	return int64(c.Ranks.Size())
}

// joinRanks prepares the job for its ranks.
func (j *job) joinRanks() {
	n := int(j.ranks())
	j.share = data.Share{Ranks: int64(n)}
	j.counts = executor.NewTensor(graph.Bool, []int{n}, make([]uint8, n)...)
	j.total = executor.NewTensor(graph.Int64, nil, int64(0))
	if j.weighted() {
		j.total = executor.NewTensor(graph.Float64, nil, float64(0))
	}
	if j.Ranks != nil {
		j.share.Rank = int64(j.Ranks.Rank())
		j.Session.Ranks = executor.NewRanks(j.Ranks)
	}
}

// weighted reports whether the gradients of an update have weights.
func (j *job) weighted() bool {
	return j.Steps.Joint != nil && j.Steps.Joint.Weights.Weighing == autograd.Weighted
}

// parts lists the steps of training; some are nil.
func (j *job) parts() []*part {
	return append([]*part{j.step, j.rest, j.combine, j.update}, j.sized...)
}

// tally is the state of an update under way.
type tally struct {
	start   int64     // the update's first batch in its epoch
	mine    []float64 // by turn of this rank: the outcome of its batch, the loss, and its weight
	stop    error     // of this rank, when all ranks know of it
	losses  float64   // of all ranks, times their weights, added in the order of the batches
	weights float64   // likewise
	counted int64     // batches with a loss that is finite
	norm    float64
	finite  bool
	short   bool // a batch of it was left out
	cut     bool // a rank that was asked to end has not tried a batch of it
}

// The fate of a batch.
const (
	idle    = 0 // no batch
	counted = 1
	left    = 2 // its loss is not finite
	untried = 3 // the rank was asked to end before it
)

// perTurn is how many numbers of a turn mine has.
const perTurn = 3

// loss is that of the update.
func (t *tally) loss(w autograd.Weighing) float64 {
	switch {
	case t.counted == 0:
		return math.NaN()
	case w == autograd.Summed:
		return t.losses
	}
	return t.losses / t.weights
}

// begin starts an update.
func (t *tally) begin(index int64) {
	*t = tally{start: index, mine: t.mine[:0], norm: math.NaN(), finite: true}
}

// add notes the fate of this rank's batch.
func (t *tally) add(state, loss, weight float64) { t.mine = append(t.mine, state, loss, weight) }

// note adds a batch that was run.
func (t *tally) note(loss, weight float64, err error) {
	if err == nil {
		t.add(counted, loss, weight)
		return
	}
	t.add(left, 0, 0)
	t.finite, t.short = false, true
}

// keep returns an error that ends the job at once. With several ranks, numbers that are not finite wait
// until all know of them; a batch that is left out is no error.
func (t *tally) keep(err error, several bool) error {
	var bad *NotFiniteError
	switch {
	case err == nil, errors.Is(err, errSkip):
		return nil
	case several && errors.As(err, &bad):
		t.stop = err
		return nil
	}
	return err
}

// turnsLeft is the number of turns of the next update: fewer at the end of an epoch.
func (j *job) turnsLeft() int64 {
	n := j.ranks()
	return min(j.Micros, (j.Order.Batches()-j.index+n-1)/n)
}

// number is that of this rank's batch in a turn of the update under way, counted over all updates and
// ranks: random draws are those of one rank that takes all of them.
func (j *job) number(turn int64) uint64 {
	return uint64((j.done*j.Micros+turn)*j.ranks() + j.share.Rank)
}

// countTurn goes on behind the batches of a turn. Where each step is an update, its ranks learn from
// counts and total which of them have a batch.
func (j *job) countTurn() {
	first, last := j.index, min(j.index+j.ranks(), j.Order.Batches())
	for b := first; b < last; b++ {
		rows := int64(j.Order.Rows(b))
		j.samples += rows
		j.window.samples += rows
	}
	j.index = last
	if j.update != nil {
		return
	}
	for r := range j.counts.Data {
		j.counts.Data[r] = flag(first+int64(r) < last)
	}
	if !j.weighted() { // else the step itself adds up weights
		executor.Of[int64](j.total)[0] = last - first
	}
}

// flag is an element of a bool tensor.
func flag(on bool) byte {
	if on {
		return 1
	}
	return 0
}

// addUp adds up the tallies of all ranks, and ends the job on all of them if it has to end on one.
func (j *job) addUp() error {
	u := &j.tally
	turns, n := len(u.mine)/perTurn, int(j.ranks())
	all, err := j.exchange(u.mine)
	if err != nil {
		return err
	}
	of, bad := make([]int64, n), []int64(nil) // by rank: batches that count; batches that do not
	for t := range turns {
		for r := range n {
			at := all[perTurn*(r*turns+t):]
			switch at[0] {
			case counted:
				u.losses, u.weights, u.counted = u.losses+at[1]*at[2], u.weights+at[2], u.counted+1
				of[r]++
			case left:
				u.finite, u.short = false, true
				bad = append(bad, int64(t*n+r))
			case untried:
				u.cut = true
			}
		}
	}
	if j.update != nil {
		for r := range of {
			j.counts.Data[r] = flag(of[r] > 0)
		}
		if j.weighted() {
			executor.Of[float64](j.total)[0] = u.weights
		} else {
			executor.Of[int64](j.total)[0] = u.counted
		}
	}
	if j.Ranks == nil {
		return nil
	}
	return j.judgeAll(bad)
}

// judgeAll is judge for the batches of all ranks, by their places in the update.
func (j *job) judgeAll(bad []int64) error {
	u := &j.tally
	switch {
	case u.stop != nil:
		return u.stop
	case len(bad) > 0 && j.OnNaN == StopOnNaN:
		return j.elsewhere(j.notFinite(j.Steps.Loss, bad[0]), bad)
	case !j.Steps.agreed || u.finite:
		return nil
	}
	for _, b := range bad {
		j.warnFirst(fmt.Sprintf("update %d: %s is not finite: batch %d of epoch %d, and with it the update, "+
			"is left out", j.done+1, j.Steps.Loss, u.start+b, j.epoch))
	}
	if len(bad) > 0 || j.Scale != nil {
		return nil // the scale changes
	}
	if j.OnNaN == StopOnNaN {
		return j.elsewhere(j.notFinite(autograd.NormOutput, 0), nil)
	}
	j.warnFirst(fmt.Sprintf("update %d: %s is not finite: the update is left out", j.done+1, autograd.NormOutput))
	return nil
}

// warnFirst warns in one of the ranks.
func (j *job) warnFirst(text string) {
	if j.share.Rank == 0 {
		j.Observer.Warn(text)
	}
}

// notFinite is the error for a batch of the update under way.
func (j *job) notFinite(value string, batch int64) error {
	return &NotFiniteError{Update: j.done + 1, Value: value, Epoch: j.epoch, Batch: j.tally.start + batch}
}

// elsewhere is an error that all ranks know of, as the rank of the first batch in a list has it; nil
// batches mean rank 0.
func (j *job) elsewhere(err error, batches []int64) error {
	r := int64(0)
	if len(batches) > 0 {
		r = batches[0] % j.ranks()
	}
	if r == j.share.Rank {
		return err
	}
	return &ElsewhereError{int(r), err}
}

// stops reports whether the job is to end: whether some rank is asked to.
func (j *job) stops(ctx context.Context) (bool, error) {
	asked := 0.0
	if ctx.Err() != nil {
		asked = 1
	}
	all, err := j.exchange([]float64{asked})
	for _, x := range all {
		asked = max(asked, x)
	}
	return asked > 0, err
}

// exchange gathers numbers of all ranks, as many of each, in the order of the ranks.
func (j *job) exchange(mine []float64) ([]float64, error) {
	if j.Ranks == nil {
		return mine, nil
	}
	var out []byte
	for _, x := range mine {
		out = binary.LittleEndian.AppendUint64(out, math.Float64bits(x))
	}
	in := make([]byte, len(out)*j.Ranks.Size())
	if err := j.Ranks.Exchange(out, in); err != nil {
		return nil, lost(err)
	}
	all := make([]float64, len(in)/8)
	for i := range all {
		all[i] = math.Float64frombits(binary.LittleEndian.Uint64(in[8*i:]))
	}
	return all, nil
}

// shareStatistics gives all ranks the running statistics of rank 0; before, every rank has those of
// its own batches.
func (j *job) shareStatistics() error {
	if j.Ranks == nil {
		return nil
	}
	env := j.Steps.dims(j.Plans.Rows)
	for i := range j.Steps.States {
		s := &j.Steps.States[i]
		if !s.Model || !s.Next || j.Steps.trains(s.Name) {
			continue
		}
		t := room(s, env)
		if err := j.machine.Read(s.Name, t.Data); err != nil {
			return err
		}
		if err := j.Ranks.Broadcast(0, t.Data); err != nil {
			return lost(err)
		}
		if err := j.machine.Put(s.Name, t); err != nil {
			return err
		}
	}
	return nil
}

// arenasOfRanks notes the arena and the memory of moved values that each rank has measured.
func (j *job) arenasOfRanks() error {
	if j.Ranks == nil {
		return nil
	}
	j.result.Waited = j.Session.Ranks.Waited()
	all, err := j.exchange([]float64{float64(j.result.MeasuredArena), float64(j.result.MeasuredHost)})
	for i := 0; i+1 < len(all); i += 2 {
		j.result.RankArenas = append(j.result.RankArenas, int64(all[i]))
		j.result.RankHosts = append(j.result.RankHosts, int64(all[i+1]))
	}
	return err
}

// unexpected reports whether a step has failed for another reason than that a number is not finite.
func unexpected(err error) bool {
	var bad *resident.NotFiniteError
	return err != nil && !errors.As(err, &bad)
}
