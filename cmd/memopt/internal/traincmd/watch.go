package traincmd

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"memopt/train"
	"memopt/view/report"
)

// trainWatcher shows how a job goes on: in a line of a terminal, else a line per report of metrics.
type trainWatcher struct {
	t     *training
	begin time.Time // of the first update
	first int64     // updates that were done then
	last  int64
	end   time.Time
}

func newTrainWatcher(t *training) *trainWatcher { return &trainWatcher{t: t} }

// Ready prints the job's predicted memory, before its first step.
func (w *trainWatcher) Ready(p train.Prediction) {
	t := w.t
	t.view.States, t.view.Inputs, t.view.Arena, t.view.EvalArena = p.States, p.Inputs, p.Arena, p.Eval
	t.view.Ahead, t.view.Staging = p.Ahead, p.Staging
	if t.view.Moves != nil {
		t.view.Moves.Host = p.Host
	}
	out := t.App.Out
	if t.format != report.TableFormat {
		out = t.App.Err
	}
	if t.format == report.TableFormat || !t.Global.Quiet {
		report.TrainStart(out, &t.view)
		io.WriteString(out, "\n")
	}
	t.App.Flush()
	w.begin, w.first = time.Now(), t.view.Begun
	t.App.Status.Untimed()
	t.App.Status.Say("update %d of %d", t.view.Begun+1, t.view.Updates)
}

// Updated moves the line. The first update has costs that later ones do not have, so speed counts from its
// end.
func (w *trainWatcher) Updated(done int64, m *train.Metrics) {
	w.last, w.end = done, time.Now()
	if done == w.t.view.Begun+1 {
		w.begin, w.first = w.end, done
	}
	w.t.App.Status.Say("update %d of %d  loss %s  %s  %s%s", done, w.t.view.Updates, lossText(m.Loss), speedText(m),
		report.Bytes(w.t.view.Total()), w.left(done))
}

// rate is updates per second.
func (w *trainWatcher) rate() float64 {
	if took := w.end.Sub(w.begin).Seconds(); took > 0 {
		return float64(w.last-w.first) / took
	}
	return 0
}

// Logged prints a line where no status line is drawn.
func (w *trainWatcher) Logged(m *train.Metrics) {
	if w.t.App.Status != nil || w.t.Global.Quiet {
		return
	}
	text := fmt.Sprintf("loss %s  lr %.3g", lossText(m.Loss), m.LearningRate)
	if !math.IsNaN(m.GradNorm) {
		text += fmt.Sprintf("  norm %.3g", m.GradNorm)
	}
	fmt.Fprintf(w.t.App.Err, "update %d/%d  %s  %s  %s%s\n", m.Step, w.t.view.Updates, text, speedText(m),
		report.Bytes(m.RSSBytes), w.left(m.Step))
}

// left says how long the job will still take.
func (w *trainWatcher) left(done int64) string {
	if r := w.rate(); r > 0 && done < w.t.view.Updates {
		return "  " + time.Duration(float64(w.t.view.Updates-done)/r*1e9).Round(time.Second).String() + " left"
	}
	return ""
}

// Evaluated prints the loss of an evaluation.
func (w *trainWatcher) Evaluated(update int64, loss float64) {
	if w.t.evalOnly {
		return // it is all that is reported
	}
	w.line("evaluation after update %d: loss %s", update, lossText(loss))
}

// Saved reports a failed checkpoint.
func (w *trainWatcher) Saved(path string, err error) {
	if err != nil {
		w.t.Warn("the checkpoint of update %d could not be written, and the job goes on with the one before: %v",
			w.last, err)
		return
	}
	if path != "" && w.t.Global.Verbose {
		w.line("saved %s", path)
	}
}

// Warn prints a warning for the user.
func (w *trainWatcher) Warn(text string) {
	if r := w.t.rank(); r > 0 { // which is quiet
		w.t.Say("warning:", fmt.Sprintf("rank %d: %s", r, text))
		return
	}
	w.t.Warn("%s", text)
}

func (w *trainWatcher) line(format string, args ...any) { w.t.Note(format, args...) }

// speedText says how fast a job is.
func speedText(m *train.Metrics) string {
	n, what := m.SamplesPerSecond, "samples/s"
	if m.TokensPerSecond > 0 {
		n, what = m.TokensPerSecond, "tokens/s"
	}
	if n >= 100 {
		return report.Thousands(int64(n)) + " " + what
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", n), ".0") + " " + what
}

// lossText is a loss in as many digits as are read.
func lossText(x float64) string {
	if math.IsNaN(x) {
		return "none"
	}
	return fmt.Sprintf("%.4f", x)
}
