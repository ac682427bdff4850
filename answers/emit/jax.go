package emit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"memopt/graph"
	"memopt/planner/device"
	"memopt/python/pytorch"
	jaxsim "memopt/sim/jax"
)

// JAXOptions choose a plan for a step of JAX.
type JAXOptions struct {
	Path string // of the file with the step
	// Total is the most bytes that arguments, results and the step's values may take together; Share the most bytes as
	// a share of the step without checkpoints. Both 0: no budget.
	Total   int64
	Share   float64
	Profile *device.Profile // of the device; nil means device.Default
	// HostBudget is the most bytes that may lie in the host's memory, and Link the bytes per second each way.
	HostBudget int64
	Link       float64 // 0: no values move
	Found      func()  // is called where a setting that fits is found; may be nil
}

// ErrNoMaxText: none of a step's names is one that MaxText's custom policy decides about.
var ErrNoMaxText = errors.New("no value has a name of MaxText's (" +
	strings.Join(slices.Sorted(maps.Keys(maxtextNames)), ", ") + "): take the names of a model of MaxText, or plan " +
	"for jax.checkpoint itself")

// names searches the names whose values a policy keeps or moves.
type names struct {
	p      *jaxsim.Program
	a      *Answer
	o      *JAXOptions
	list   []string // those that a policy decides about and that save bytes
	fixed  map[string]bool
	base   float64 // seconds of the step without checkpoints
	limit  int64
	lowest *named // the setting with the lowest peak
}

// named is a setting.
type named struct {
	policy  jaxsim.Policy
	usage   jaxsim.Usage
	saved   *jaxsim.Saved
	seconds float64
	waited  float64 // seconds of waiting for copies, among these
}

// maxSettings bounds the settings that are all tried.
const maxSettings = 1024

// JAX finds names whose values jax.checkpoint keeps, within a budget. The error of a target that has other names is
// ErrNoMaxText.
func JAX(ctx context.Context, t *Target, p *jaxsim.Program, o JAXOptions) (*Answer, error) {
	if o.Profile == nil {
		o.Profile = &device.Default
	}
	if o.Link == 0 {
		o.HostBudget = 0
	}
	a := &Answer{Schema: Schema, Target: t.Name, Fits: true, target: t}
	a.Model.Path = o.Path
	n := &names{p: p, a: a, o: &o, limit: math.MaxInt64, fixed: map[string]bool{}}
	whole := p.Peak(p.Everything)
	n.base = n.seconds(p.Everything)
	a.Held, a.Baseline = p.Held+whole.Arguments, Memory{Peak: whole.Peak}
	switch {
	case o.Total > 0:
		n.limit = o.Total
	case o.Share > 0:
		n.limit = int64(o.Share * float64(whole.Peak))
	}
	if n.limit < math.MaxInt64 {
		a.Limit = &n.limit
	}
	return a, t.jax(ctx, n)
}

// seconds estimates a step's time.
func (n *names) seconds(b *jaxsim.Body) float64 {
	return n.p.Seconds(b, func(k jaxsim.Kernel) float64 {
		d, ok := graph.ParseDType(k.Type)
		if !ok {
			d = graph.Float32
		}
		return n.o.Profile.Kernel(k.Product, d, k.FLOPs, k.Moved)
	})
}

// besideCopies is the share of a step that copies each way run beside, as half of a backward half: a step waits for the
// rest of them. The forward half, which is a third of a step, makes the values that move.
const besideCopies = 1.0 / 3

// set simulates a setting.
func (n *names) set(policy jaxsim.Policy) *named {
	s := n.p.With(policy)
	x := &named{policy: policy, saved: s, usage: n.p.Peak(s.Body), seconds: n.seconds(s.Body)}
	if s.Moved > 0 {
		x.waited = 2 * max(0, float64(s.Moved)/n.o.Link-besideCopies*n.base)
		x.seconds += x.waited
	}
	if n.allowed(x) && (n.lowest == nil || x.usage.Peak < n.lowest.usage.Peak) {
		n.lowest = x
	}
	return x
}

func (n *names) allowed(x *named) bool { return x.saved.Moved <= n.o.HostBudget }

func (n *names) fits(x *named) bool { return n.allowed(x) && x.usage.Peak <= n.limit }

// better reports whether a setting fits and is cheaper than another one, which may be nil; of equal times the lower
// peak counts.
func (n *names) better(x, than *named) bool {
	switch {
	case !n.fits(x):
		return false
	case than == nil || x.seconds != than.seconds:
		return than == nil || x.seconds < than.seconds
	}
	return x.usage.Peak < than.usage.Peak
}

// found tells the caller that there is an answer.
func (n *names) found(x *named) *named {
	if n.o.Found != nil {
		n.o.Found()
	}
	return x
}

// choices are the decisions about a name.
func (n *names) choices(name string) []jaxsim.Decision {
	out := []jaxsim.Decision{jaxsim.Again, jaxsim.Keep, jaxsim.Offload}
	if n.o.HostBudget == 0 {
		out = out[:2]
	}
	if n.fixed[name] {
		out = out[1:]
	}
	return out
}

// best is the cheapest setting found; nil if none fits. Names are those that the target decides about.
func (n *names) best(ctx context.Context, list []string) (best *named) {
	all := jaxsim.Policy{}
	for _, name := range list {
		all[name] = jaxsim.Keep
	}
	kept := n.set(all)
	start := jaxsim.Policy{}
	for _, name := range list {
		if n.fixed[name] {
			start[name] = jaxsim.Keep
		}
	}
	if n.list = list; !n.few() {
		n.list = slices.DeleteFunc(slices.Clone(list), func(name string) bool {
			return !n.fixed[name] && kept.saved.Bytes[name] == 0
		})
	}
	for _, x := range []*named{n.set(start), kept} {
		if n.better(x, best) {
			best = n.found(x)
		}
	}
	if n.few() {
		return n.all(ctx, start, 0, best)
	}
	for _, x := range []*named{n.set(start), kept, n.lowest} {
		if x = n.climb(ctx, x); n.better(x, best) {
			best = n.found(x)
		}
	}
	return best
}

// few reports whether there are so few settings that all are tried.
func (n *names) few() bool {
	settings := 1
	for _, name := range n.list {
		if settings *= len(n.choices(name)); settings > maxSettings {
			return false
		}
	}
	return true
}

// all tries all decisions about the names from number i on.
func (n *names) all(ctx context.Context, policy jaxsim.Policy, i int, best *named) *named {
	if ctx.Err() != nil {
		return best
	}
	if i == len(n.list) {
		if x := n.set(maps.Clone(policy)); n.better(x, best) {
			best = n.found(x)
		}
		return best
	}
	for _, d := range n.choices(n.list[i]) {
		policy[n.list[i]] = d
		best = n.all(ctx, policy, i+1, best)
	}
	return best
}

// climb changes one decision, or exchanges two, for as long as that lowers the peak of a setting that does not fit, or
// the time of one that does.
func (n *names) climb(ctx context.Context, x *named) *named {
	for again := true; again; {
		again = false
		for i, name := range n.list {
			for _, d := range n.choices(name) {
				for _, other := range n.list[i:] {
					for _, e := range n.choices(other) {
						if ctx.Err() != nil {
							return x
						}
						if d == x.policy[name] || (other == name) != (e == x.policy[other]) {
							continue // one decision with e as it is, or two that change
						}
						policy := maps.Clone(x.policy)
						policy[other], policy[name] = e, d
						if y := n.set(policy); n.nearer(y, x) {
							x, again = y, true
						}
					}
				}
			}
		}
	}
	return x
}

// nearer reports whether a setting is a step from another one towards the best: cheaper, or while that does not fit, of
// a lower peak. One that fits is told.
func (n *names) nearer(x, than *named) bool {
	switch fits := n.fits(than); {
	case !n.fits(x):
		return !fits && n.allowed(x) && x.usage.Peak < than.usage.Peak
	case !fits || n.better(x, than):
		n.found(x)
		return true
	}
	return false
}

// finish writes the numbers of a setting into the answer; nil if none fits.
func (n *names) finish(x *named) bool {
	n.a.Fits = x != nil
	if x == nil {
		x = n.lowest
	}
	n.a.Memory = Memory{x.usage.Peak, max(0, x.seconds/n.base-1)}
	n.a.movesTo(x.saved.Moved, x.waited/n.base)
	return n.a.Fits
}

// having lists the names with a decision, in alphabetical order; of those that are kept, only those that save bytes.
func (x *named) having(d jaxsim.Decision) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(x.policy)) {
		if x.policy[name] == d && x.saved.Bytes[name] > 0 {
			out = append(out, name)
		}
	}
	return out
}

// jaxPolicy is the target of jax.checkpoint itself.
func jaxPolicy(ctx context.Context, n *names) error {
	if n.a.Baseline.Peak <= n.limit {
		n.a.Memory = n.a.Baseline
		n.a.Text = n.a.header("#") + jaxHead + "everything_saveable\n"
		return nil
	}
	x := n.best(ctx, n.p.Names)
	if !n.finish(x) {
		return nil
	}
	keep, move := quoted(x.having(jaxsim.Keep)), quoted(x.having(jaxsim.Offload))
	n.a.Text = n.a.header("#") + jaxHead
	switch {
	case move != "":
		n.a.Text += fmt.Sprintf("save_and_offload_only_these_names(\n    names_which_can_be_saved=[%s],\n"+
			"    names_which_can_be_offloaded=[%s],\n    offload_src=\"device\",\n"+
			"    offload_dst=\"pinned_host\",\n)\n",
			keep, move)
	case keep != "":
		n.a.Text += "save_only_these_names(" + keep + ")\n"
	default:
		n.a.Text += "nothing_saveable\n"
	}
	return nil
}

const jaxHead = "import jax\n\npolicy = jax.checkpoint_policies."

func quoted(names []string) string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = pytorch.PythonString(name)
	}
	return strings.Join(out, ", ")
}

// maxtextNames are the tensors that MaxText's remat_policy "custom" decides about (src/MaxText/configs/base.yml); the
// value says whether one cannot be computed again.
var maxtextNames = map[string]bool{"decoder_layer_input": true, "context": false, "mlpwi": false, "mlpwi_0": false,
	"mlpwi_1": false, "mlpwo": false, "query_proj": false, "key_proj": false, "value_proj": false, "qkv_proj": false,
	"out_proj": false, "mla_q": false, "mla_kv": false}

// maxtext is the target of MaxText's configuration.
func maxtext(ctx context.Context, n *names) error {
	var list []string
	for _, name := range n.p.Names {
		if fixed, ok := maxtextNames[name]; ok {
			list = append(list, name)
			n.fixed[name] = fixed
		}
	}
	if len(list) == 0 {
		return ErrNoMaxText
	}
	x := n.best(ctx, list)
	if !n.finish(x) {
		return nil
	}
	n.a.Text = n.a.header("#") + "remat_policy: 'custom'\n"
	words := map[jaxsim.Decision]string{jaxsim.Again: "remat", jaxsim.Keep: "device", jaxsim.Offload: "offload"}
	for _, name := range list {
		d := x.policy[name]
		if x.saved.Bytes[name] == 0 && !n.fixed[name] {
			d = jaxsim.Again
		}
		n.a.Text += fmt.Sprintf("%s: '%s'\n", name, words[d])
	}
	return nil
}
