package train

import (
	"math"
	"time"

	"memopt/executor"
	"memopt/executor/resident"
	"memopt/train/events"
)

// Metrics are the measurements of an update. Numbers that are not known are NaN.
type Metrics struct {
	Step                              int64   // updates that are made
	Epoch                             float64 // how often the data have been gone through
	Loss, LearningRate, GradNorm      float64
	TokensPerSecond, SamplesPerSecond float64 // TokensPerSecond is 0 where data are no tokens
	Skipped                           int64   // updates since the last report, as in Result
	ArenaBytes, HostBytes, RSSBytes   int64
	LossScale                         float64 // 0 without a loss scale
}

// window collects measurements since the last report.
type window struct {
	since   time.Time // has the monotonic clock, which does not go backwards
	samples int64
	skipped int64 // job.skipped before it
	losses  float64
	count   int64
}

// begin starts a new window.
func (w *window) begin(now time.Time, skipped int64) { *w = window{since: now, skipped: skipped} }

// measure makes the metrics of an update. Its loss goes into the mean that is reported next.
func (j *job) measure(loss, rate, norm float64) *Metrics {
	if math.IsNaN(j.result.LossFirst) {
		j.result.LossFirst = loss
	}
	j.result.LossLast = loss
	if !math.IsNaN(loss) {
		j.window.losses, j.window.count = j.window.losses+loss, j.window.count+1
	}
	m := &j.metrics
	*m = Metrics{Step: j.done, Epoch: float64(j.epoch) + float64(j.index)/float64(j.Order.Batches()),
		Loss: loss, LearningRate: rate, GradNorm: norm}
	if took := time.Since(j.window.since).Seconds(); took > 0 {
		m.SamplesPerSecond = float64(j.window.samples) / took
		m.TokensPerSecond = m.SamplesPerSecond * float64(j.Source.Tokens())
	}
	return m
}

// log reports metrics: the mean loss since the last report.
func (j *job) log(m *Metrics) {
	out := *m
	if j.window.count > 0 {
		out.Loss = j.window.losses / float64(j.window.count)
	}
	out.Skipped = j.skipped - j.window.skipped
	j.measured()
	out.ArenaBytes, out.HostBytes = j.result.MeasuredArena, j.result.MeasuredHost
	out.RSSBytes = j.result.Process.Resident
	if j.Scale != nil {
		out.LossScale = j.Scale.Value
	}
	j.window.begin(time.Now(), j.skipped)
	j.report(&out)
}

// report hands metrics to their readers. A failed write becomes a warning, and the job goes on.
func (j *job) report(m *Metrics) {
	j.Observer.Logged(m)
	line := events.Metrics{Step: m.Step, Epoch: m.Epoch, Loss: known(m.Loss), LearningRate: known(m.LearningRate),
		GradNorm: known(m.GradNorm), Skipped: m.Skipped, ArenaBytes: m.ArenaBytes, HostBytes: m.HostBytes,
		RSSBytes: m.RSSBytes}
	if m.LossScale != 0 {
		line.LossScale = known(m.LossScale)
	}
	if m.TokensPerSecond > 0 {
		line.TokensPerSecond = known(m.TokensPerSecond)
	} else {
		line.SamplesPerSecond = known(m.SamplesPerSecond)
	}
	j.write(&line)
	j.scalar(m.Step, "train/loss", m.Loss)
	j.scalar(m.Step, "train/learning_rate", m.LearningRate)
	j.scalar(m.Step, "train/grad_norm", m.GradNorm)
	j.scalar(m.Step, "train/epoch", m.Epoch)
	j.scalar(m.Step, "train/samples_per_second", m.SamplesPerSecond)
	j.scalar(m.Step, "memory/arena_bytes", float64(m.ArenaBytes))
	j.scalar(m.Step, "memory/rss_bytes", float64(m.RSSBytes))
	if m.HostBytes != 0 {
		j.scalar(m.Step, "memory/host_bytes", float64(m.HostBytes))
	}
	if m.LossScale != 0 {
		j.scalar(m.Step, "train/loss_scale", m.LossScale)
	}
}

// known is a number, or nil if it is not.
func known(x float64) *events.Number {
	if math.IsNaN(x) {
		return nil
	}
	n := events.Number(x)
	return &n
}

// write appends a line to metrics.jsonl.
func (j *job) write(line *events.Metrics) {
	if j.Metrics == nil {
		return
	}
	if err := j.Metrics.Write(line); err != nil {
		j.Observer.Warn(err.Error())
	}
}

// scalar gives TensorBoard a number.
func (j *job) scalar(step int64, tag string, x float64) {
	if j.Board == nil || math.IsNaN(x) {
		return
	}
	if err := j.Board.Scalar(step, tag, x); err != nil {
		j.Observer.Warn(err.Error())
	}
}

// measured notes the largest arena that a step has taken, that of moved values, and the memory of the process.
func (j *job) measured() {
	other, outside := j.machine.(resident.Outside)
	if outside {
		j.result.Process = other.ProcessMemory()
	} else {
		j.result.Process = executor.ReadProcessMemory()
	}
	parts := j.parts()
	if j.eval != nil {
		parts = append(parts, j.eval.parts()...)
	}
	for _, x := range parts {
		if x == nil {
			continue
		}
		m := x.Measured()
		if outside { // for other processes, it is the memory that later runs took beyond the first one
			m.Arena += m.Dynamic
		}
		j.result.MeasuredArena = max(j.result.MeasuredArena, m.Arena)
		j.result.MeasuredHost = max(j.result.MeasuredHost, m.Host)
	}
}
