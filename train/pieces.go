package train

import (
	"encoding/binary"
	"fmt"
	"slices"

	"memopt/autograd"
	"memopt/executor"
	"memopt/train/safetensors"
)

// keeps reports whether several ranks keep checkpoints, which rank 0 writes.
func (j *job) keeps() bool { return j.Ranks != nil && j.Keeps }

// Checkpoints have states by parameter, however many ranks share them: whoever goes on may be another
// number. Rank 0 asks for the pieces of a shard when it writes the first parameter of it.

// nothingMore is rank 0's request that ends the exchange.
const nothingMore = -1

// saveOfRanks writes a checkpoint. All ranks learn its path, or that it failed.
func (j *job) saveOfRanks() (string, error) {
	if j.lastSaved == j.done && j.result.Saved != "" {
		return j.result.Saved, nil
	}
	if j.share.Rank != 0 {
		return j.serve()
	}
	g := &gatherer{job: j, shard: nothingMore}
	path, err := j.saveHere(g.read)
	if e := j.say(nothingMore); e != nil {
		return "", e
	}
	if err != nil {
		path = ""
	}
	if e := j.say(int64(len(path))); e != nil {
		return "", e
	}
	if len(path) > 0 {
		if e := j.Ranks.Broadcast(0, []byte(path)); e != nil {
			return "", lost(e)
		}
	}
	return path, err
}

// serve gives rank 0 the pieces that it asks for.
func (j *job) serve() (string, error) {
	for {
		n, err := j.hear()
		if err != nil {
			return "", err
		}
		if n == nothingMore {
			break
		}
		mine, err := j.piece(n)
		if err != nil {
			return "", err
		}
		if err := j.Ranks.Gather(0, mine, nil); err != nil {
			return "", lost(err)
		}
	}
	n, err := j.hear()
	if err != nil || n == 0 {
		return "", err
	}
	path := make([]byte, n)
	if err := j.Ranks.Broadcast(0, path); err != nil {
		return "", lost(err)
	}
	j.result.Saved, j.lastSaved = string(path), j.done
	return string(path), nil
}

// say gives all ranks a number of rank 0, hear gets it.
func (j *job) say(n int64) error {
	return lost(j.Ranks.Broadcast(0, binary.LittleEndian.AppendUint64(nil, uint64(n))))
}

func (j *job) hear() (int64, error) {
	var b [8]byte
	err := j.Ranks.Broadcast(0, b[:])
	return int64(binary.LittleEndian.Uint64(b[:])), lost(err)
}

// piece is this rank's piece of a sharded state, by number: shard times suffixes, plus suffix.
func (j *job) piece(n int64) ([]byte, error) {
	list := j.Steps.Joint.Shards
	s := &list[int(n)/len(list[0].States)]
	name := s.Name + s.States[int(n)%len(s.States)]
	i := slices.IndexFunc(j.Steps.States, func(st State) bool { return st.Name == name })
	mine := make([]byte, int(s.Piece)*j.Steps.States[i].Type.DType.Bits()/8)
	return mine, j.machine.Read(name, mine)
}

// gatherer reads states for a checkpoint, sharded ones from all ranks.
type gatherer struct {
	*job
	shard int64  // the shard that all belongs to
	all   []byte // a sharded state
}

// read is resident.Machine's Read.
func (g *gatherer) read(name string, dst []byte) error {
	for k, s := range g.Steps.Joint.Shards {
		for i, suffix := range s.States {
			at := 0 // of the parameter, in bytes
			for _, p := range s.Params {
				size := g.bytesLike(p, s.Name+suffix)
				if p+suffix == name {
					if err := g.gather(int64(k*len(s.States) + i)); err != nil {
						return err
					}
					copy(dst, g.all[at:at+size])
					return nil
				}
				at += size
			}
		}
	}
	return g.machine.Read(name, dst)
}

// gather gets a sharded state from all ranks.
func (g *gatherer) gather(n int64) error {
	if g.shard == n {
		return nil
	}
	if err := g.say(n); err != nil {
		return err
	}
	mine, err := g.piece(n)
	if err != nil {
		return err
	}
	g.all, g.shard = make([]byte, len(mine)*g.Ranks.Size()), n
	return lost(g.Ranks.Gather(0, mine, g.all))
}

// shapeOf is the shape of a state.
func (j *job) shapeOf(name string) []int {
	i := slices.IndexFunc(j.Steps.States, func(s State) bool { return s.Name == name })
	return executor.EvalShape(j.Steps.States[i].Type, j.Steps.dims(j.Plans.Rows))
}

// bytesLike is the size of a state of a parameter that has the type of a sharded one.
func (j *job) bytesLike(param, state string) int {
	i := slices.IndexFunc(j.Steps.States, func(s State) bool { return s.Name == state })
	n, _ := executor.Bytes(j.Steps.States[i].Type.DType, j.shapeOf(param))
	return n
}

// wholeEntries lists the entries of a checkpoint for a sharded state: one for each parameter.
func (j *job) wholeEntries(s *State, shard *autograd.Shard, suffix string) (list []safetensors.Entry) {
	for _, p := range shard.Params {
		list = append(list, safetensors.Entry{Name: p + suffix, DType: s.Type.DType, Shape: j.shapeOf(p)})
	}
	return list
}

// savedPiece is this rank's piece of a shard, from the checkpoint's entries for the shard's
// parameters.
func (j *job) savedPiece(s *State, shard *autograd.Shard, suffix string) (*executor.Tensor, error) {
	size := s.Type.DType.Bits() / 8
	data := make([]byte, (int(shard.Piece)*size+7)&^7)[:int(shard.Piece)*size]
	lo, at := int(j.share.Rank)*len(data), 0
	for _, p := range shard.Params {
		t, ok := j.Resume.Others.Tensor(p + suffix)
		if !ok {
			return nil, callerError("checkpoint %s: has no %q, which the job needs: it is of another model or "+
				"optimizer", j.Resume.Path, p+suffix)
		}
		want := State{Name: p + suffix, Type: s.Type}
		if err := sameType(fmt.Sprintf("checkpoint %s", j.Resume.Path), &want, j.shapeOf(p), t); err != nil {
			return nil, err
		}
		from, to := max(lo-at, 0), min(lo+len(data)-at, len(t.Data))
		if from < to {
			copy(data[at+from-lo:], t.Data[from:to])
		}
		at += len(t.Data)
	}
	return &executor.Tensor{DType: s.Type.DType, Shape: []int{int(shard.Piece)}, Data: data}, nil
}
