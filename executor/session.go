package executor

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/hint"
	"memopt/internal/mapfile"
	"memopt/symbolic"
)

// Options of Open. The zero value runs on all cores with a planned arena of its own.
type Options struct {
	Threads int          // 0 means one per core
	Order   graph.Order  // nil means graph.Topological
	Dims    symbolic.Env // bindings of all symbols of the inputs
	// OnDemand allocates memory for each value when it is made ("memory pattern off"), instead of
	// planning offsets before the run.
	OnDemand bool
	Arena    *Arena         // shared with other sessions; nil means an own one
	Strategy ExtendStrategy // of the own arena
	MemLimit int64          // of the own arena; 0 means no limit
	Seed     uint64         // of random nodes that fix no seed
	// Ranks is the group that the session is a rank of; nil means that operators of ranks do not run.
	Ranks *Ranks
	// Guard puts bytes of a known value behind every buffer and checks them after
	// every node: for tests.
	Guard bool
	// NoFusion runs every node on its own: no fusion groups, on the host or on a device.
	NoFusion bool
	// Capture makes a device that supports it record the second step and replay it from then on.
	Capture bool
	// Blocking waits for a device after every node and fuses no nodes, so that a fault is reported
	// with the node that caused it.
	Blocking bool

	// AdoptStates hands the memory of inputs that are states over to the session, which writes their
	// next values there instead of into copies.
	AdoptStates bool
	// Store holds the states that the session shares with others, by name; nil means that the
	// session has its own. SetInput of a state in the store is an error.
	Store *Store
	// Home is where a machine's states lie, in place of memory of its own (package resident); nil: there is no file.
	Home *Home

	// Link is the link that values are copied to the host's memory and back over (Offload, Reload).
	Link Link

	// Beside is the host memory that the caller will take before it closes the session: it must fit
	// together with the arena.
	Beside int64

	sizesOnly bool     // weights are not loaded to the device: no run will follow
	Observer  Observer // nil without an observer
	// Probe, if not nil, is called with every value that a node has made, while its memory is
	// valid.
	Probe func(v graph.ValueID, t *Tensor)
}

// Observer is told of every node that has run.
type Observer interface {
	// Node is called after the node at place i of the order has run: when it started, how long it
	// took, and the bytes that were live meanwhile. Nodes that run in one loop (Looper), or in one
	// piece of a device's work (Fuser), are reported one after the other when the loop is done,
	// each with its share of the time.
	Node(i int, id graph.NodeID, start time.Time, took time.Duration, live int64)
}

// ThreadObserver is told, too, when threads besides the one that runs the nodes worked for a node, which
// the next call of Node is about. In a loop over several nodes that is the first of them.
type ThreadObserver interface {
	Observer
	// Thread is called after thread 1 or higher of a session has worked for a time.
	Thread(thread int, start time.Time, took time.Duration)
}

// Prediction is a session's memory as known before it runs. Bytes of inputs and weights are in
// Persistent and in none of the other figures.
type Prediction struct {
	Live       int64 // peak of the bytes that are live at once, workspaces included
	LeastLive  int64 // Live if libraries took the least workspace (LibraryWork)
	Arena      int64 // bytes of the planned layout
	LowerBound int64 // no layout is smaller: live bytes with every buffer rounded up to arena.Alignment
	Workspace  int64 // the largest workspace of one node
	Persistent int64
	// HostLive is the peak of the bytes of values in the host's memory (Offload), and Host those of
	// their layout there. They count in none of the figures above.
	HostLive, Host int64
	PeakNode       graph.NodeID
	// Unsized lists values whose size depends on data: they lie outside the planned layout and
	// count in none of the figures. For example, the output of NonZero.
	Unsized []graph.ValueID
}

// Measured is the memory that a session's runs needed, in bytes.
type Measured struct {
	Live int64 // peak of the bytes that are live at once
	// Arena is the end of the highest buffer that a kernel was given in the planned layout; on
	// demand, the most that values and workspaces of known size had in use.
	Arena int64
	// Peak of the memory taken on demand beside these: values whose size depends on data, and
	// subgraphs.
	Dynamic int64
	// HostLive is the peak of the bytes of values in the host's memory (Offload), and Host the end of
	// the highest of them there, as Arena on the device.
	HostLive, Host int64
	Copies         Copies
	Moved          Moved
	Runs           int
}

// Session is a graph made ready to run on a device. It is used by one goroutine at a time.
type Session struct {
	opts    Options
	device  Device
	model   *graph.Model
	root    *frame
	pool    *Pool
	virtual bool // memory is counted and not taken
	arena   *Arena
	own     bool         // whether arena is the session's own
	base    []byte       // the planned layout
	placed  bool         // base comes from Place
	weights *Arena       // copies of initializers, and outputs of constant nodes
	inFiles int64        // bytes of initializers that stay in mapped files
	mem     DeviceMemory // the memory of weights and arena
	// hostArena is for host nodes of an accelerator's session; otherwise it is arena.
	hostArena *Arena
	shares    shares
	host      hostCopies
	mover     *mover    // nil where no node copies to the host
	outputs   []*Tensor // copies of outputs for the host
	fetched   fetched
	captured  capturing
	types     *op.Result
	run       uint64
	pred      Prediction
	measured  Measured
	fed       map[graph.ValueID]*Tensor // gradients for YieldOp's outputs
	feeds     []Feed
	states    states
	// storedBytes are those of states that lie in Options.Store.
	storedBytes int64
}

// Feed is the source of a gradient that a boundary node outputs.
type Feed struct {
	Value graph.ValueID // the boundary node's output
	Given bool          // by the caller; else Made is its kind
	Made  MadeGradient
}

// MadeGradient is the gradient that a boundary node hands out where the caller gives none. If one of the forward
// half's outputs is a scalar, it is the loss: its gradient is one, and those of the other outputs are zeros.
type MadeGradient uint8

const (
	// LikeOutput is the forward half's output itself: there is no scalar among the outputs.
	LikeOutput MadeGradient = iota
	// LossGradient is one, the gradient of the loss by itself.
	LossGradient
	// ZeroGradient is zero, beside that of the loss.
	ZeroGradient
)

// Open makes a model ready to run. Its types must be inferred (op.Infer). The error is an
// *Unsupported if the device lacks a kernel, or a *symbolic.UnboundError; it wraps ErrOutOfMemory
// if weights and arena do not fit into the available memory. A context that is done ends the search
// for a smaller arena; the session is complete nevertheless.
func Open(ctx context.Context, m *graph.Model, types *op.Result, d Device, opts Options) (*Session, error) {
	if opts.Order == nil {
		order, err := graph.Topological(m.Graph)
		if err != nil {
			return nil, err
		}
		opts.Order = order
	}
	s := &Session{
		opts: opts, device: d, model: m, types: types, pool: NewPool(opts.Threads),
		arena: opts.Arena, mem: memoryOf(d), fed: map[graph.ValueID]*Tensor{},
	}
	if t, ok := opts.Observer.(ThreadObserver); ok {
		s.pool.Watch(t.Thread)
	}
	if s.arena != nil && s.arena.source != s.mem {
		s.pool.Close()
		return nil, fmt.Errorf("the arena's memory is not that of device %s: make it with NewArenaFor", d.Name())
	}
	s.weights = newArenaOn(s.mem, NextPowerOfTwo, 0)
	if s.arena == nil {
		s.arena, s.own = newArenaOn(s.mem, opts.Strategy, opts.MemLimit), true
	}
	if s.hostArena = s.arena; s.mem != (hostMemory{}) {
		s.hostArena = NewArena(NextPowerOfTwo, 0)
	}
	s.shares = newShares(s.arena, s.hostArena)
	if v, ok := d.(Virtual); ok {
		s.virtual = v.Virtual()
	}
	s.opts.Guard = s.opts.Guard && !s.virtual
	if err := opts.Link.Check(); err != nil {
		s.Close()
		return nil, err
	}
	if err := s.guardedPrepare(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// guardedPrepare is prepare, but reports a file of weights that becomes shorter as an error.
func (s *Session) guardedPrepare(ctx context.Context) (err error) {
	defer mapfile.Guard(&err)()
	return s.prepare(ctx)
}

// prepare makes kernels, loads weights and plans memory.
func (s *Session) prepare(ctx context.Context) error {
	g := s.model.Graph
	sizes, err := live.EvalRunSizes(g, s.opts.Dims)
	if err != nil {
		return err
	}
	if err := s.findStates(); err != nil {
		return err
	}
	if err := checkCopies(g); err != nil {
		return err
	}
	if sizes.States = s.states.pairs; len(sizes.States) > 0 {
		sizes.Failures, err = op.FailuresOf(s.model, s.types, s.opts.Order, s.opts.Dims)
		if err != nil {
			return err
		}
	}
	if s.pred.Persistent, err = live.PersistentBytes(g, sizes); err != nil {
		return err
	}
	s.root = newFrame(s, g, nil, nil)
	s.root.shapes = evalShapes(g, s.opts.Dims)
	if err := s.shareStore(); err != nil {
		return err
	}
	if err := s.root.space.reserve(); err != nil {
		return err
	}
	if err := s.root.makeSteps(s.opts.Order); err != nil {
		return err
	}
	if err := s.root.loadWeights(); err != nil {
		return err
	}
	if err := s.root.plan(sizes); err != nil {
		return err
	}
	s.root.planStates()
	if err := s.root.planWatch(); err != nil {
		return err
	}
	if !s.opts.OnDemand {
		s.root.pack(ctx)
		if err := s.root.fuse(); err != nil {
			return err
		}
	}
	s.pred = s.root.prediction(s.pred)
	if s.mover != nil {
		if err := s.mover.start(); err != nil {
			return err
		}
	}
	if err := s.findFeeds(); err != nil {
		return err
	}
	s.planCapture()
	return s.checkFit()
}

// Model returns the model.
func (s *Session) Model() *graph.Model { return s.model }

// Prediction returns the session's memory as known before a run.
func (s *Session) Prediction() Prediction { return s.pred }

// Measured returns the memory that the runs so far needed.
func (s *Session) Measured() Measured { return s.measured }

// Threads returns the number of threads.
func (s *Session) Threads() int { return s.pool.Threads() }

// Feeds returns the sources of the gradients that a boundary node outputs.
func (s *Session) Feeds() []Feed { return s.feeds }

// SetStep sets the number of the next step, which its random draws depend on; later steps count on
// from there. A session begins with 0.
func (s *Session) SetStep(number uint64) { s.run = number }

// Output returns graph output i. It is valid until the next Run or Release. An accelerator's is a
// copy, whose Data is nil if the device is lost.
func (s *Session) Output(i int) *Tensor { return s.root.space.output(i) }

// Missing lists the graph inputs that have no data.
func (s *Session) Missing() []string {
	var names []string
	for _, d := range s.model.Graph.Inputs {
		if t := s.root.vals[d.Value]; t.DType == graph.Undefined || t.Data == nil && t.Len() > 0 {
			names = append(names, s.model.Graph.Values[d.Value].Name)
		}
	}
	return names
}

// Run executes one step of training: every node once, in order. The next step begins with the
// states that this one leaves. It ends with ctx.Err between two nodes if ctx is done, but not after
// the step has begun to write states. An error from then on, which data do not lead to, is a
// *TornError, and so is that of every later Run until Restart; in a first step Run has restarted.
func (s *Session) Run(ctx context.Context) error {
	if missing := s.Missing(); len(missing) > 0 && !s.virtual {
		return fmt.Errorf("input %q has no data (%d of %d inputs have none)", missing[0], len(missing),
			len(s.model.Graph.Inputs))
	}
	if err := s.torn(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err // no node has run, whatever the step before has written
	}
	if err := s.hold(); err != nil {
		return err
	}
	s.outputs, s.fetched.done = nil, false
	s.host.live, s.host.livePeak, s.host.high = 0, 0, 0
	if s.mover != nil {
		s.mover.done = ctx.Done()
	}
	before := s.arena.Stats()
	s.shares.begin()
	s.refresh()
	s.root.step = s.run
	err := s.guardedRun(ctx)
	if err != nil {
		s.mover.drain()
	}
	// The last work requested from the device may still fail.
	if e := s.mem.Sync(); err == nil && e != nil {
		err = fmt.Errorf("one of the nodes of the step has failed on the device "+
			"(run with %v to learn which): %w", hint.Blocking, e)
	}
	err = s.settleStates(err, s.root.ran)
	s.run++
	s.measured.Runs++
	s.measured.Live = max(s.measured.Live, s.root.livePeak)
	s.measureCopies()
	after := s.arena.Stats()
	switch {
	case s.virtual && s.opts.OnDemand:
		s.measured.Arena = max(s.measured.Arena, s.root.livePeak)
	case s.opts.OnDemand:
		s.measured.Arena = max(s.measured.Arena, s.shares.planned.peak)
		s.measured.Dynamic = max(s.measured.Dynamic, s.shares.beside.peak)
	default:
		s.measured.Arena = max(s.measured.Arena, s.root.high)
		s.measured.Dynamic = max(s.measured.Dynamic, after.Peak-before.InUse)
	}
	if err != nil {
		s.forget()
		s.root.release()
	}
	s.fetched.done = err == nil && s.fetched.outputs != nil
	return err
}

// guardedRun is runRoot, but reports a file of weights that changes as an error: see package
// mapfile.
func (s *Session) guardedRun(ctx context.Context) (err error) {
	defer catch(&err, debug.SetPanicOnFault(true))
	if err := s.runRoot(ctx); err != nil {
		return err
	}
	return s.checkFiles()
}

// catch makes an error of a kernel's panic. It is deferred directly, with the previous result of
// debug.SetPanicOnFault.
func catch(err *error, old bool) {
	debug.SetPanicOnFault(old)
	switch r := recover().(type) {
	case nil:
	case Fault:
		*err = r.Err // of a fusion group, which does not run in Invoke
	default:
		if *err = mapfile.Fault(r); *err == nil {
			panic(r)
		}
	}
}

// hold takes the planned block from the arena, unless the session has it already. The limit also
// holds for a device that takes no memory.
func (s *Session) hold() error {
	if !s.opts.OnDemand && !s.virtual {
		if err := s.host.hold(); err != nil {
			return err
		}
	}
	if limit := s.opts.MemLimit; s.virtual && limit > 0 && s.root.arenaBytes > limit {
		return fmt.Errorf("the planned arena of %d bytes: %w: the limit is %d bytes%s",
			s.root.arenaBytes, ErrOutOfMemory, limit, s.liveAtPeak())
	}
	if s.base != nil || s.opts.OnDemand || s.virtual || s.root.arenaBytes == 0 {
		if s.own || s.placed {
			s.arena.ResetPeak()
		}
		return nil
	}
	base, err := s.arena.Reserve(int(s.root.arenaBytes))
	if err != nil {
		return fmt.Errorf("the planned arena of %d bytes: %w%s", s.root.arenaBytes, err, s.liveAtPeak())
	}
	s.base = base
	s.arena.ResetPeak()
	return nil
}

// Release returns the session's memory, outputs included, to the arena, so that another session of
// the arena can run. The next Run takes it again.
func (s *Session) Release() {
	s.forget()
	s.fetched.done = false
	if s.root != nil {
		s.root.release()
	}
	s.host.release()
	if !s.placed {
		s.arena.Free(s.base)
		s.base = nil
	}
}

// Place gives the session memory for its planned layout, in place of memory from its arena:
// Prediction.Arena bytes or more, in the memory of its device. Sessions that run by turns may share
// a block; each run overwrites the values of the others, outputs included. nil takes the block
// back.
func (s *Session) Place(block []byte) {
	s.Release()
	s.base, s.placed = block, block != nil
}

// Close frees all memory and ends the session's threads.
func (s *Session) Close() error {
	s.Release()
	s.pool.Close()
	var err error
	s.mem.Sync() // pending work may use the memory; Run has returned its error
	s.mover.stop()
	s.dropFetches()
	if s.hostArena != s.arena {
		s.hostArena.Close()
	}
	if s.own {
		err = s.arena.Close()
	}
	if e := s.weights.Close(); err == nil {
		err = e
	}
	if s.host.arena != nil {
		if e := s.host.arena.Close(); err == nil {
			err = e
		}
	}
	s.root = nil
	return err
}

// WeightStats returns the sizes of the arena for inputs and weights that the session has copied.
func (s *Session) WeightStats() ArenaStats { return s.weights.Stats() }

// ArenaStats returns the sizes of the session's arena.
func (s *Session) ArenaStats() ArenaStats { return s.arena.Stats() }
