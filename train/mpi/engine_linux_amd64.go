//go:build !nodl

package mpi

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"memopt/graph"
	"memopt/train/collective"
)

// Tags of messages. Between two ranks, messages of one tag arrive in the order of their sending.
const (
	tagHeader   = 1 + iota // a rank's call
	tagData                // of operations
	tagQuestion            // whether a rank is there
	tagAnswer
)

// Bytes of messages.
const (
	headerBytes   = 32
	questionBytes = 8
)

// engine makes the calls of MPI for a group, all on one thread.
type engine struct {
	group      *group
	lib        *lib
	rank, size int
	operations [3]func(*engine, *operation) error // by collective.Op
	current    collective.Ticket
	moved      time.Time // when something of the current operation was last done
	arriving   bool      // not all ranks have come to the current operation

	// The library's targets while Go runs lie in memory outside Go's heap.
	memory   []byte
	staging  int64 // its bytes
	flag     []byte
	header   []byte // this rank's
	headers  []byte // of all others
	headings requests
	slots    [2]requests // of the rounds of a stream
	stages   [2][]byte   // receive buffers of a round of scatter
	chunk    int         // bytes of one rank's part of a stage

	question  []byte // from another rank
	asked     requests
	answers   []byte // to and from all ranks
	answering requests
	kept      [][]byte // targets of the library after a timeout

	scatter   scatter
	gather    gather
	reduction reduction
	spread    spread
}

// requests are those of MPI that are waited for together.
type requests struct {
	at uintptr
	n  int
}

// newEngine opens and starts the library.
func newEngine(g *group) (*engine, error) {
	var l *lib
	if err := keepSignals(func() (err error) {
		if l, err = openLibrary(g.options.Library, g.options.Launch.Kind); err != nil {
			return err
		}
		return l.start()
	}); err != nil {
		return nil, fmt.Errorf("%s has started %d ranks: %w", g.options.Launch.Launcher, g.options.Launch.Size, err)
	}
	e := &engine{group: g, lib: l, rank: g.options.Launch.Rank, size: g.options.Launch.Size}
	rank, size, err := l.world()
	if err != nil {
		return nil, err
	}
	if rank != e.rank || size != e.size {
		return nil, fmt.Errorf("%s has started %d ranks, of which this is %d, but for %s (%s) it is %d of %d: the "+
			"library must be that of the launcher; start the ranks by the mpirun of this library, or name the "+
			"library of the launcher", g.options.Launch.Launcher, e.size, e.rank, l.version, l.path, rank, size)
	}
	e.operations = [...]func(*engine, *operation) error{
		collective.AllReduce: (*engine).allReduce, collective.ReduceScatter: (*engine).reduceScatter,
		collective.AllGather: (*engine).allGather,
	}
	if err := e.place(); err != nil {
		return nil, err
	}
	return e, e.listen()
}

// place divides the engine's memory.
func (e *engine) place() error {
	e.chunk = chunkBytes(e.size)
	stage := 0
	if e.group.options.Exact {
		stage = (e.size - 1) * e.chunk
	}
	list := 2 * e.size * 8 // requests to and from all others
	sizes := []int{
		64, headerBytes, e.size * headerBytes, list, list, list, questionBytes, 8, 2 * e.size * questionBytes, list,
		stage, stage,
	}
	total := 0
	for i, n := range sizes {
		sizes[i] = (n + 63) &^ 63
		total += sizes[i]
	}
	memory, err := unix.Mmap(-1, 0, total, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return fmt.Errorf("%d bytes of memory for messages: %w", total, err)
	}
	e.memory, e.staging = memory, int64(total)
	next := func() []byte {
		part := memory[:sizes[0]:sizes[0]]
		memory, sizes = memory[sizes[0]:], sizes[1:]
		return part
	}
	e.flag, e.header, e.headers = next(), next(), next()
	e.headings.at, e.slots[0].at, e.slots[1].at = address(next()), address(next()), address(next())
	e.question, e.asked.at, e.answers, e.answering.at = next(), address(next()), next(), address(next())
	e.stages[0], e.stages[1] = next(), next()
	return nil
}

// perform does an operation, once all ranks have come to it and agree.
func (e *engine) perform(o *operation, t collective.Ticket) error {
	e.current, e.moved = t, time.Now()
	if err := e.meet(o.Call); err != nil {
		return err
	}
	return o.do(e, o)
}

// meet tells the other ranks this one's call, and waits for theirs.
func (e *engine) meet(c collective.Call) error {
	e.putHeader(c)
	e.headings.n = 0
	for q := range e.size {
		if q == e.rank {
			continue
		}
		if err := e.receive(&e.headings, e.headerOf(q), q, tagHeader); err != nil {
			return err
		}
		if err := e.send(&e.headings, e.header[:headerBytes], q, tagHeader); err != nil {
			return err
		}
	}
	e.arriving = true
	if err := e.wait(&e.headings); err != nil {
		return err
	}
	e.arriving = false
	for q := range e.size {
		if h := e.headerOf(q); q != e.rank && string(h) != string(e.header[:headerBytes]) {
			return e.disagree(c, q, h)
		}
	}
	return nil
}

// headerOf is the place of another rank's header.
func (e *engine) headerOf(q int) []byte { return e.headers[q*headerBytes : (q+1)*headerBytes] }

// whats are the operations as headers number them.
var whats = []string{
	collective.AllReduce.String(), collective.ReduceScatter.String(), collective.AllGather.String(), "exchange",
	"gather", "broadcast", collective.CallClose.What,
}

// putHeader writes this rank's call.
func (e *engine) putHeader(c collective.Call) {
	h := e.header
	binary.LittleEndian.PutUint64(h, uint64(e.current))
	binary.LittleEndian.PutUint64(h[8:], uint64(c.Bytes))
	binary.LittleEndian.PutUint32(h[16:], uint32(slices.Index(whats, c.What)))
	binary.LittleEndian.PutUint32(h[20:], uint32(c.DType))
	binary.LittleEndian.PutUint32(h[24:], uint32(c.Root))
	h[28] = 0
	if e.group.options.Exact && sums(c) {
		h[28] = 1
	}
}

// sums reports whether a call adds up numbers, in one of two ways.
func sums(c collective.Call) bool {
	return c.What == collective.AllReduce.String() || c.What == collective.ReduceScatter.String()
}

// disagree is the error where another rank calls something else. It names the lower rank first, so that all ranks say
// the same.
func (e *engine) disagree(c collective.Call, q int, h []byte) error {
	what := int(binary.LittleEndian.Uint32(h[16:]))
	if h[28] != e.header[28] && sums(c) && what < len(whats) && whats[what] == c.What {
		way := [...]string{"as MPI does", "in the order of the ranks"}
		mine, theirs := way[e.header[28]&1], way[h[28]&1]
		if q < e.rank {
			mine, theirs = theirs, mine
		}
		return fmt.Errorf("rank %d sums %s, rank %d %s: Options.Exact must be the same on all ranks", min(e.rank, q),
			mine, max(e.rank, q), theirs)
	}
	if what >= len(whats) || binary.LittleEndian.Uint64(h) != uint64(e.current) {
		return fmt.Errorf("rank %d sends no header of operation %d: all ranks must run the same program", q,
			e.current)
	}
	other := collective.Call{
		What: whats[what], DType: graph.DType(binary.LittleEndian.Uint32(h[20:])),
		Root: int(int32(binary.LittleEndian.Uint32(h[24:]))), Bytes: int(binary.LittleEndian.Uint64(h[8:])),
	}
	mismatch := &collective.MismatchError{
		Ticket: e.current, Ranks: [2]int{e.rank, q}, Calls: [2]collective.Call{c, other},
	}
	if q < e.rank {
		mismatch.Ranks, mismatch.Calls = [2]int{q, e.rank}, [2]collective.Call{other, c}
	}
	return mismatch
}

// next is the place of a new request.
func (e *engine) next(r *requests) uintptr {
	at := r.at + uintptr(r.n*e.lib.request)
	r.n++
	return at
}

// send begins to send a message; one without bytes is not sent.
func (e *engine) send(r *requests, buf []byte, to, tag int) error {
	if len(buf) == 0 {
		return nil
	}
	v := &e.lib.values
	return e.lib.do(fnIsend, address(buf), uintptr(len(buf)), v[typeByte], uintptr(to), uintptr(tag), v[commWorld],
		e.next(r))
}

// receive begins to receive a message; one without bytes is not sent.
func (e *engine) receive(r *requests, buf []byte, from, tag int) error {
	if len(buf) == 0 {
		return nil
	}
	v := &e.lib.values
	return e.lib.do(fnIrecv, address(buf), uintptr(len(buf)), v[typeByte], uintptr(from), uintptr(tag), v[commWorld],
		e.next(r))
}

// test says whether requests are done.
func (e *engine) test(r *requests) (bool, error) {
	if r.n == 0 {
		return true, nil
	}
	err := e.lib.do(fnTestall, uintptr(r.n), r.at, address(e.flag), e.lib.ignore)
	return err == nil && binary.LittleEndian.Uint32(e.flag) != 0, err
}

// A rank that waits polls for spinFor, as data in transit arrive soon, and then after naps that
// double.
const (
	spinFor  = 50 * time.Microsecond
	shortNap = 20 * time.Microsecond
	longNap  = 200 * time.Microsecond
)

// wait returns when requests are done.
func (e *engine) wait(r *requests) error {
	since, pause := time.Now(), shortNap
	for {
		done, err := e.test(r)
		if err != nil {
			return err
		}
		now := time.Now()
		if done {
			e.moved = now
			r.n = 0
			return e.attend()
		}
		if now.Sub(since) < spinFor {
			continue
		}
		if err := e.attend(); err != nil {
			return err
		}
		if limit := e.group.options.Timeout; limit > 0 && now.Sub(e.moved) > limit {
			return e.timedOut(now.Sub(e.moved))
		}
		nap(pause)
		pause = min(2*pause, longNap)
	}
}

// nap sleeps on this thread: Go's own timers sleep a millisecond and more on an idle process.
func nap(d time.Duration) {
	t := unix.NsecToTimespec(int64(d))
	_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &t, nil) // a signal ends it earlier
}

// attend serves other ranks while this one waits: Abort, and answers.
func (e *engine) attend() error {
	if code := e.group.abort.Load(); code != 0 {
		_ = e.lib.do(fnAbort, e.lib.values[commWorld], uintptr(code>>1))
		os.Exit(int(code >> 1))
	}
	if e.asked.n == 0 {
		return nil // MPI ends, or has ended
	}
	asked, err := e.test(&e.asked)
	if err != nil || !asked {
		return err
	}
	e.asked.n = 0
	from := int(binary.LittleEndian.Uint64(e.question)) - 1
	if from < 0 || from >= e.size {
		return fmt.Errorf("a question comes from rank %d of %d: all ranks must run the same program", from, e.size)
	}
	answer := e.answers[from*questionBytes:][:questionBytes]
	binary.LittleEndian.PutUint64(answer, uint64(e.rank)+1)
	e.answering.n = 0 // a rank asks once in its life, and does not check that the answer has arrived
	return errors.Join(e.send(&e.answering, answer, from, tagAnswer), e.listen())
}

// listen begins to receive a question of any rank.
func (e *engine) listen() error {
	return e.receive(&e.asked, e.question[:questionBytes], int(e.lib.any), tagQuestion)
}

// close ends MPI: all ranks have come here.
func (e *engine) close(*operation) error {
	if err := e.lib.do(fnCancel, e.asked.at); err != nil {
		return err
	}
	if err := e.wait(&e.asked); err != nil {
		return err
	}
	if err := e.lib.do(fnFinalize); err != nil {
		return err
	}
	return unix.Munmap(e.memory)
}
