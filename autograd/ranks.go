package autograd

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"memopt/graph"
	"memopt/symbolic"
)

// Ranks says that a step is one of several ranks' that train the same parameters on different data
// (data parallelism). Each adds up the gradients of all, in buckets that leave while the backward half
// goes on, and divides them by how many batches they are of.
type Ranks struct {
	Count int // fewer than 2: the step is the only one
	// Zero shards data that all ranks would otherwise have (ZeRO, Rajbhandari et al. 2020): 1 shards
	// states of the optimizer, 2 gradients, too, and 0 means no sharding. A step that applies sums of
	// gradients has these whole, and shards states.
	Zero int
	// BucketBytes is the least size of a bucket that leaves; 0 means an eighth of all gradients, of
	// at least leastBucket and at most mostBucket.
	BucketBytes int64
}

// Bounds of the default size of buckets, in bytes. A bucket is there beside its gradients, and only
// buckets that leave before the last gradient is made overlap with the backward half: so there are
// several. The upper bound is that of PyTorch's DistributedDataParallel.
const (
	leastBucket = 1 << 20
	mostBucket  = 25 << 20
)

// Names of the inputs of steps with several ranks.
const (
	// CountsInput says of each rank whether it has a batch in this step: bool, one element a rank.
	CountsInput = "rank_counts"
	// TotalInput is the number of batches of all ranks in the gradients of an update: an int64 scalar, or for
	// weighted gradients (Options.Weigh) the sum of the weights, a double.
	TotalInput = "grad_count_total"
	// ShardPrefix and a number replace the parameters in the names of sharded states.
	ShardPrefix = "shard_"
)

// Shard is a row of parameters whose elements, one after the other, fall into a piece for each rank. A
// rank has the optimizer's states of its piece, and updates it.
type Shard struct {
	Name     string   // ShardPrefix and a number
	Params   []string // in the order of their elements
	States   []string // suffixes of Name, and of Params: those of the optimizer
	Elements int64    // of all parameters
	Piece    int64    // of a rank: Elements/Count, rounded up; the last ranks' end with zeros
}

// several reports whether there is more than one rank.
func (r *Ranks) several() bool { return r.Count > 1 }

// check rejects numbers that ranks cannot have, and fills in the defaults.
func (r *Ranks) check() error {
	switch {
	case r.Count < 0:
		return fmt.Errorf("%d ranks: wanted at least one", r.Count)
	case r.Zero < 0 || r.Zero > 2:
		return fmt.Errorf("ZeRO stage %d: wanted 0, 1 or 2", r.Zero)
	case r.BucketBytes < 0:
		return fmt.Errorf("buckets of %d bytes: wanted at least one", r.BucketBytes)
	}
	return nil
}

// bucket is a row of gradients that are added up over the ranks together.
type bucket struct {
	of       []int   // the parameters, by number
	offsets  []int64 // of each, in elements
	grads    []Value // of each, as the step makes or is given them
	elements int64
	member   member // of the optimizer's groups, where the bucket is a shard
	start    Value  // the sum under way
	sum      Value  // the gradients of all ranks; None if grads are sums over them already
	piece    Value  // this rank's piece of the sum, in stage 2, else None
}

// rankWork is the part of an update for several ranks.
type rankWork struct {
	counts  Value
	buckets []*bucket
	at      []int                         // by parameter: its bucket
	behind  map[graph.NodeID]graph.NodeID // which node a wait must not come before
	whole   []Value                       // all parameters, where pieces take their place, else nil
	last    *bucket                       // whose new weights are being gathered
	full    Value                         // of last
}

// addRanks adds the inputs that steps of several ranks have.
func (u *updater) addRanks() {
	u.counts = u.newInput(CountsInput, graph.Tensor(graph.Bool, graph.Dims(symbolic.Const(int64(u.Ranks.Count)))))
}

// rankOp emits an operator of ranks.
func (u *updater) rankOp(name, output string, in ...Value) Value {
	return u.Own(name, output, Attrs{A("ranks", int64(u.Ranks.Count))}, in...)
}

// runOverRanks emits the update of one of several ranks.
func (u *updater) runOverRanks() {
	u.findGrads()
	u.join()
	u.addRanks()
	u.weighGrads()
	u.fillBuckets()
	u.reduceBuckets()
	factor := u.meanFactor(u.j.out.Weights.Weighing, u.total(), u.j.out.LossScale)
	u.isFinite(u.j.out.LossScale != "", factor)
	factor = u.clipped(factor)
	u.bound = factor
	u.shard()
	u.rates()
	u.shareScalars()
	u.guardStates()
	for i := range u.params {
		u.begin = append(u.begin, len(u.j.g.Nodes))
		p, grad := u.taken(i)
		if u.packs(p) {
			u.updatePacked(i, p, grad, factor)
			continue
		}
		u.update(i, p, u.scaled(grad, factor))
	}
	u.finishGather()
}

// weighGrads multiplies gradients by the weight of their loss, where the graph has not done so.
func (u *updater) weighGrads() {
	if j := u.j.out; j.Weights.Weighing == Weighted && !j.seeded {
		w := u.j.g.Value(WeightOutput)
		for i, g := range u.grads {
			g = u.work(g)
			u.grads[i] = u.Mul(g, u.Cast(w, u.DType(g)))
		}
	}
}

// total is the number of batches of all ranks in the gradients of a step, or the sum of their weights; None if
// the loss is a sum.
func (u *updater) total() Value {
	switch u.j.out.Weights.Weighing {
	case Summed:
		return None
	case Alike:
		return u.newInput(TotalInput, graph.Tensor(graph.Int64, graph.Dims()))
	}
	return u.ofCounted(u.Cast(u.j.g.Value(WeightOutput), graph.Float64))
}

// leastWeight is the divisor of weights where all are 0, and so all gradients: its inverse is a float.
const leastWeight = 1.0 / (1 << 60)

// meanFactor is the factor of sums of gradients: 1/total, how many there are or the sum of their weights,
// unless the loss is a sum, and 1/scale where the losses are scaled. scale is its input, or "".
func (u *updater) meanFactor(w Weighing, total Value, scale string) Value {
	factor, least := u.double(1), 1.0
	if w == Weighted {
		least = leastWeight
	}
	if w != Summed {
		factor = u.Div(factor, u.Op("Max", nil, u.Cast(total, graph.Float64), u.double(least)))
	}
	if scale == "" {
		return factor
	}
	v, ok := u.j.g.Lookup(scale)
	if !ok {
		v = u.newInput(scale, graph.Tensor(graph.Float32, graph.Dims()))
	}
	return u.Div(factor, u.Cast(v, graph.Float64))
}

// fillBuckets puts the gradients into buckets in the order of their producers. Parameters of one
// shard have one rate and one decay.
func (u *updater) fillBuckets() {
	order := make([]int, len(u.params))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(u.j.g.Values[u.grads[a]].Def, u.j.g.Values[u.grads[b]].Def)
	})
	type key struct {
		gradient, weight graph.DType
		m                member
	}
	open, full := map[key]*bucket{}, u.bucketBytes()
	u.at = make([]int, len(u.params))
	for _, i := range order {
		k := key{gradient: u.DType(u.grads[i])}
		if u.Ranks.Zero > 0 {
			k.weight, k.m = u.DType(u.params[i]), u.members[i]
		}
		b := open[k]
		if b == nil {
			b = &bucket{member: u.members[i], start: None, sum: None, piece: None}
			u.buckets, open[k] = append(u.buckets, b), b
		}
		b.of, b.offsets, b.grads = append(b.of, i), append(b.offsets, b.elements), append(b.grads, u.grads[i])
		b.elements += u.elements(u.params[i])
		if b.elements*int64(k.gradient.Bits()/8) >= full {
			delete(open, k)
		}
	}
	// One is full when its last gradient is there.
	slices.SortStableFunc(u.buckets, func(a, b *bucket) int {
		return cmp.Compare(u.lastGrad(a), u.lastGrad(b))
	})
	for k, b := range u.buckets {
		for _, i := range b.of {
			u.at[i] = k
		}
	}
}

// bucketBytes is the least size of a bucket that leaves.
func (u *updater) bucketBytes() int64 {
	if u.Ranks.BucketBytes > 0 {
		return u.Ranks.BucketBytes
	}
	all := int64(0)
	for i, p := range u.params {
		all += u.elements(p) * int64(u.DType(u.grads[i]).Bits()/8)
	}
	return min(max(all/8, leastBucket), mostBucket)
}

// lastGrad is the node that makes a bucket's last gradient.
func (u *updater) lastGrad(b *bucket) graph.NodeID {
	return u.j.g.Values[u.grads[b.of[len(b.of)-1]]].Def
}

// elements is how many a parameter has.
func (u *updater) elements(p Value) int64 {
	n, ok := u.Type(p).Shape.Elements().Const()
	if !ok {
		u.must(fmt.Errorf("parameter %q is %v: several ranks add up gradients of fixed shapes only",
			u.j.g.ValueName(p), u.Type(p)))
	}
	return n
}

// reduceBuckets adds up the buckets over the ranks. Each sum is waited for when the next one has begun:
// until then the backward half makes gradients for that one.
func (u *updater) reduceBuckets() {
	u.behind = map[graph.NodeID]graph.NodeID{}
	for k, b := range u.buckets {
		u.j.prefix = u.j.base + "bucket_" + itoa(k) + "/"
		b.start = u.rankOp(u.reduction(), "", u.packed(b), u.counts)
		if k > 0 {
			u.await(u.buckets[k-1], u.j.g.Values[b.start].Def)
		}
	}
	if n := len(u.buckets); n > 0 {
		u.await(u.buckets[n-1], graph.NoNode)
	}
	u.j.prefix = u.j.base
}

// reduction is the operator that adds up a bucket.
func (u *updater) reduction() string {
	if u.Ranks.Zero == 2 {
		return "ReduceScatterStart"
	}
	return "AllReduceStart"
}

// packed is a bucket's gradients as a vector, in pieces of equal length where it is sharded.
func (u *updater) packed(b *bucket) Value {
	var flat []Value
	for _, grad := range b.grads {
		flat = append(flat, u.Reshape(grad, u.Vector(-1)))
	}
	if n := u.padding(b); n > 0 {
		flat = append(flat, u.zerosOf(u.Vector(n), flat[0]))
	}
	if len(flat) == 1 {
		return flat[0]
	}
	return u.Concat(0, flat...)
}

// padding is how many zeros end a bucket.
func (u *updater) padding(b *bucket) int64 {
	if u.Ranks.Zero == 0 {
		return 0
	}
	return u.pieceOf(b)*int64(u.Ranks.Count) - b.elements
}

// pieceOf is the number of elements of a rank's piece.
func (u *updater) pieceOf(b *bucket) int64 {
	n := int64(u.Ranks.Count)
	return (b.elements + n - 1) / n
}

// await waits for a bucket's sum, not before a node.
func (u *updater) await(b *bucket, after graph.NodeID) {
	b.sum = u.Own("CollectiveWait", "", nil, b.start)
	if after != graph.NoNode {
		u.behind[u.j.g.Values[b.sum].Def] = after
	}
	if u.Ranks.Zero == 2 {
		b.piece = u.rankOp("RankPiece", "", b.sum)
	}
	for _, i := range b.of {
		u.grads[i] = b.sum
	}
}

// gradient is the sum over the ranks of the gradient of parameter number i. It is taken out of its
// bucket anew at each use: all of them together would be a second copy.
func (u *updater) gradient(i int) Value {
	if u.buckets == nil || u.buckets[u.at[i]].sum == None {
		return u.grads[i]
	}
	b := u.buckets[u.at[i]]
	v := b.sum
	if len(b.of) > 1 || u.padding(b) > 0 {
		at := b.offsets[slices.Index(b.of, i)]
		v = u.Slice(v, u.Vector(at), u.Vector(at+u.elements(u.params[i])), u.Vector(0))
	}
	return u.Reshape(v, u.ShapeOf(u.params[i]))
}

// parts lists the gradients, or pieces of them, that this rank knows whole; disjoint says that they are
// pieces, whose numbers have to be added up over the ranks.
func (u *updater) parts() (of []func() Value, disjoint bool) {
	if disjoint = u.Ranks.several() && u.Ranks.Zero == 2; disjoint {
		for _, b := range u.buckets {
			of = append(of, func() Value { return b.piece })
		}
		return of, true
	}
	for i := range u.params {
		of = append(of, func() Value { return u.gradient(i) })
	}
	return of, false
}

// ofAll adds up a scalar over the ranks.
func (u *updater) ofAll(v Value) Value {
	if !u.Ranks.several() || v == None {
		return v
	}
	return u.Own("CollectiveWait", "", nil, u.rankOp("AllReduceStart", "", v, u.everyRank()))
}

// everyRank says that all ranks count: each has a part of a number, with a batch or not.
func (u *updater) everyRank() Value {
	n := u.Ranks.Count
	return u.j.constant(&graph.TensorData{DType: graph.Bool, Dims: []int64{int64(n)},
		Source: graph.Raw(slices.Repeat([]byte{1}, n))})
}

// ofCounted adds up a scalar over the ranks that have a batch.
func (u *updater) ofCounted(v Value) Value {
	if !u.Ranks.several() || v == None {
		return v
	}
	return u.Own("CollectiveWait", "", nil, u.rankOp("AllReduceStart", "", v, u.counts))
}

// shard lets buckets take the place of parameters where states are sharded.
func (u *updater) shard() {
	if u.Ranks.Zero == 0 || len(u.buckets) == 0 {
		return
	}
	u.whole, u.params, u.members = u.params, nil, nil
	grads := u.grads
	u.grads = nil
	for k, b := range u.buckets {
		s := Shard{Name: ShardPrefix + itoa(k), States: u.States(), Elements: b.elements, Piece: u.pieceOf(b)}
		for _, i := range b.of {
			s.Params = append(s.Params, u.j.g.ValueName(u.whole[i]))
		}
		u.j.out.Shards = append(u.j.out.Shards, s)
		u.params, u.grads = append(u.params, u.whole[b.of[0]]), append(u.grads, grads[b.of[0]])
		u.members = append(u.members, b.member)
	}
}

// taken is parameter number i and its gradient, or this rank's pieces where a bucket takes its place.
func (u *updater) taken(i int) (param, grad Value) {
	if u.whole == nil {
		u.j.prefix = u.j.base + u.j.g.ValueName(u.params[i]) + "/"
		return u.params[i], u.gradient(i)
	}
	b, name := u.buckets[i], ShardPrefix+itoa(i)
	u.j.prefix = u.j.base + name + "/"
	var weights []Value
	for _, k := range b.of {
		weights = append(weights, u.whole[k])
	}
	switch {
	case b.piece != None:
		grad = b.piece
	case b.sum != None:
		grad = u.rankOp("RankPiece", "", b.sum)
	default:
		grad = u.rankOp("RankPiece", "", b.grads...)
	}
	return u.rankOp("RankPiece", name, weights...), grad
}

// settle makes the updated form of parameter number i the next one. Pieces are gathered, each while the
// next one is updated.
func (u *updater) settle(i int, updated Value) {
	if u.whole == nil {
		p := u.params[i]
		u.next(u.j.g.ValueName(p), u.rounded(updated, u.DType(p), u.j.g.ValueName(p)))
		return
	}
	b := u.buckets[i]
	full := u.rankOp("AllGatherStart", "", u.Cast(updated, u.DType(u.whole[b.of[0]])))
	u.gathered()
	u.last, u.full = b, full
}

// gathered makes the new weights that are being gathered the next ones.
func (u *updater) gathered() {
	if u.last == nil {
		return
	}
	full := u.Own("CollectiveWait", "", nil, u.full)
	for k, i := range u.last.of {
		p := u.whole[i]
		u.next(u.j.g.ValueName(p), u.Own("Unpack", "", Attrs{A("offset", u.last.offsets[k])}, full, p))
	}
	u.last = nil
}

// finishGather waits for the last weights.
func (u *updater) finishGather() {
	u.gathered()
	u.j.prefix, u.j.owner = u.j.base, nil
}

// checkRanks rejects options that steps of several ranks do not support.
func (o *Optimizer) checkRanks() error {
	if err := o.Ranks.check(); err != nil {
		return fmt.Errorf("optimizer %s: %w", o.Kind, err)
	}
	if o.Ranks.several() && o.KeepGrads {
		return errors.New("optimizer: gradients cannot be kept with several ranks: they leave in buckets")
	}
	return nil
}
