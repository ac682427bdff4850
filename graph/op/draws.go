package op

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"memopt/graph"
)

// DrawsKey is the metadata key of a random node that computes a part of another: its value, the
// JSON of Draws, says which of the other's numbers the node draws. Clones keep their node's entry.
// It does not count for a model's structure (onnx.StructureSHA256), but the seed attribute that
// goes with it does.
const DrawsKey = "memopt.draws"

// DrawsSchema is the schema of Draws.
const DrawsSchema = "memopt.draws/v1"

// Draws says which numbers a random node draws that computes some elements of another node, its
// whole: those that the whole draws for these elements. memopt's executors obey
// it bit for bit, for a draw is a function of seed, step and place.
//
// Other runtimes pass over metadata and draw from the attribute of the seed on. If parts had the
// attribute of their whole, all would draw the same numbers there; so each part has one of its own,
// which follows from the whole's seed and the part's place.
type Draws struct {
	Schema string `json:"schema"`
	// First is the part's first element, counted through the whole in row-major order.
	First int64 `json:"first"`
	// Run and Stride are set for a part of an inner dim: the part has Run elements in a row, and
	// its next Run begins Stride elements behind the first. A Run of 0 means that the whole part is
	// one run.
	Run    int64 `json:"run,omitempty"`
	Stride int64 `json:"stride,omitempty"`
	// The name Of is that of the whole's output 0. It determines the seed of a part that has no
	// seed, in memopt's sessions and where a rewrite fixes seeds, so that parts and whole get the
	// same. "" means that the node's own name counts, or that a seed is given.
	Of string `json:"of,omitempty"`
	// Seed is the seed of the whole: its attribute, or the bits of a float one. Nil means that the
	// node's attribute counts, and without one the seed that is made of Of.
	Seed *int64 `json:"seed,omitempty"`
}

// drawsLimit is above each number of an element: more elements than any tensor has.
const drawsLimit = 1 << 62

// DrawsOf returns the draws that a node's metadata state; without an entry, ok is false and Draws
// zero. The error does not name the node.
func DrawsOf(n *graph.Node) (d Draws, ok bool, err error) {
	for _, p := range n.Rare().Metadata {
		if p.Key != DrawsKey {
			continue
		}
		if err := json.Unmarshal([]byte(p.Value), &d); err != nil || d.Schema != DrawsSchema {
			return Draws{}, false, fmt.Errorf("metadata %s: wanted JSON of schema %q, got %.80q; without the entry "+
				"the node draws as a whole", DrawsKey, DrawsSchema, p.Value)
		}
		if d.First < 0 || d.First >= drawsLimit {
			return Draws{}, false, fmt.Errorf("metadata %s: first is %d, wanted the number of an element, from 0 to "+
				"2^62-1; without the entry the node draws as a whole", DrawsKey, d.First)
		}
		if d.Run < 0 || d.Stride < d.Run || d.Stride >= drawsLimit || (d.Run == 0) != (d.Stride == 0) {
			return Draws{}, false, fmt.Errorf("metadata %s: run %d of each stride %d elements, wanted at most "+
				"all, and at least one; without the entry the node draws as a whole", DrawsKey, d.Run, d.Stride)
		}
		return d, true, nil
	}
	return Draws{}, false, nil
}

// SetDrawFrom makes a copy of a random node a part of it: the copy draws the numbers that the whole
// draws from its element first on. of is the name of output 0 of the whole. A copy of a part
// becomes a part of the same whole.
//
// If the whole has an attribute for its seed, the part gets a seed of its own; otherwise it gets a
// seed together with all other parts of its whole (SetSeed). The error is that of DrawsOf, or says
// why the copy cannot be a part of the node.
func SetDrawFrom(part *graph.Node, of string, first int64) error {
	return SetDrawRuns(part, of, first, 0, 0)
}

// SetDrawRuns is SetDrawFrom for a part of an inner dim, which has run elements of each stride of
// the whole: those from first on, from first + stride on, and so on.
func SetDrawRuns(part *graph.Node, of string, first, run, stride int64) error {
	d, _, err := DrawsOf(part)
	if err != nil {
		return err
	}
	if d.Run > 0 {
		return fmt.Errorf("a part that has %d of each %d elements of its whole has no parts itself", d.Run, d.Stride)
	}
	if first < 0 || first >= drawsLimit-d.First {
		return fmt.Errorf("a part cannot begin at element %d of another that begins at %d: wanted numbers from 0 to "+
			"2^62-1 together", first, d.First)
	}
	if d.Of == "" {
		d.Of = of
	}
	d.First += first
	d.Run, d.Stride = run, stride
	d.set(part)
	return nil
}

// SetSeed gives a random node that can have a seed a number for it. A part draws as its whole does
// with that seed.
func SetSeed(n *graph.Node, seed int32) {
	info := Of(n.Kind)
	n.SetAttr(info.SeedAttr, info.seedValue(seedBits(info, seed)))
	if d, part, err := DrawsOf(n); part && err == nil {
		d.Seed = nil
		d.set(n)
	}
}

// SeedAlike gives a whole the seed of a copy, or of a part, of it. If the copy has no seed, the
// whole stays as it is.
func SeedAlike(whole, drawn *graph.Node) {
	info := Of(whole.Kind)
	a := drawn.Attr(info.SeedAttr)
	if a == nil {
		return
	}
	value := a.Value
	if d, _, err := DrawsOf(drawn); err == nil && d.Seed != nil {
		value = info.seedValue(*d.Seed)
	}
	whole.SetAttr(info.SeedAttr, value)
}

// set writes the entry, with the seed that the node has, and gives the node its own.
func (d Draws) set(n *graph.Node) {
	info := Of(n.Kind)
	d.Schema = DrawsSchema
	if a := n.Attr(info.SeedAttr); a != nil && d.Seed == nil {
		switch v := a.Value.(type) {
		case int64:
			d.Seed = &v
		case float32:
			bits := int64(math.Float32bits(v))
			d.Seed = &bits
		}
	}
	if d.Seed != nil {
		d.Of = ""
		n.Attrs = slices.Clone(n.Attrs) // which may be the whole's
		n.SetAttr(info.SeedAttr, info.seedValue(d.partSeed(info)))
	}
	text, err := json.Marshal(d)
	if err != nil {
		panic("op: a struct of numbers and a name does not marshal: " + err.Error())
	}
	n.EditRare(func(r *graph.Rare) { r.Metadata = withProperty(r.Metadata, DrawsKey, string(text)) })
}

// partSeed is a seed for the part alone, which looks unlike those of the whole and of other parts:
// a number of 31 bits, or, if the attribute is a float, of 24 bits, which a float holds exactly.
// ONNX Runtime's generators tell these apart.
func (d Draws) partSeed(info *Info) int64 {
	hash := sha256.Sum256(fmt.Appendf(nil, "%d from %d", *d.Seed, d.First))
	word := uint32(hash[0])<<24 | uint32(hash[1])<<16 | uint32(hash[2])<<8 | uint32(hash[3])
	if info.FloatSeed {
		return int64(math.Float32bits(float32(word >> 8)))
	}
	return int64(word >> 1)
}

// seedBits is a number as a seed: itself, or the bits of the float.
func seedBits(info *Info, seed int32) int64 {
	if info.FloatSeed {
		return int64(math.Float32bits(float32(seed)))
	}
	return int64(seed)
}

// seedValue is the attribute that has a seed.
func (i *Info) seedValue(seed int64) any {
	if i.FloatSeed {
		return math.Float32frombits(uint32(seed))
	}
	return seed
}

// withProperty sets an entry in a copy of a list.
func withProperty(list []graph.Property, key, value string) []graph.Property {
	out := make([]graph.Property, 0, len(list)+1)
	for _, p := range list {
		if p.Key != key {
			out = append(out, p)
		}
	}
	return append(out, graph.Property{Key: key, Value: value})
}

// DrawsPerPlace maps the parts of a random node along a factor to the draws of the whole: a part
// from place k on begins at element k times per (SetDrawFrom). If stride is not 0, the part has per
// elements for each of its places in each stride of the whole (SetDrawRuns). per is 0 if parts of
// the factor are not parts of output 0.
func DrawsPerPlace(p *Pieces, f *Factor) (per, stride int64) {
	dims, place := p.out(0), whole
	if dims != nil {
		place = f.Out[0]
	}
	if !place.Cut() {
		return 0, 0
	}
	per = place.Inner * elements(dims[place.Dim+1:])
	if place.Outer != 1 || elements(dims[:place.Dim]) != 1 {
		stride = f.Size * per
	}
	return per, stride
}
