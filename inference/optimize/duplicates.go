package optimize

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"hash/maphash"
	"math"
	"strings"

	"memopt/graph"
	"memopt/inference/edit"
)

// mergeDuplicates merges constants of equal bytes, and nodes that compute the same of the same.
func mergeDuplicates(s *site) error {
	if err := mergeConstants(s); err != nil {
		return err
	}
	mergeShapes(s)
	seen := map[string]*graph.Node{}
	s.Nodes(func(n *graph.Node) {
		if !edit.Pure(n) || len(n.Outputs) == 0 {
			return
		}
		key, ok := meaning(n)
		if !ok {
			return
		}
		first := seen[key]
		if first == nil {
			seen[key] = n
			return
		}
		if s.takesOver(first, n) {
			s.did(n.Op)
		}
	})
	return nil
}

// mergeShapes lets readers of integers that depend on shapes alone read the first value that has the
// same ones in every run, however it is computed.
func mergeShapes(s *site) {
	seen := map[string]graph.ValueID{}
	s.Nodes(func(n *graph.Node) {
		v := n.Output(0)
		if !edit.Pure(n) || len(n.Outputs) != 1 || v == graph.NoValue || len(s.Readers(v)) == 0 {
			return
		}
		elems, ok := s.Types.Contents(v)
		t := s.typeOf(v)
		if !ok || t.DType.IsFloat() || !t.Shape.Ranked {
			return
		}
		key := fmt.Sprint(t.DType, t.Shape)
		for _, e := range elems {
			if ok = ok && s.decided(e); ok {
				key += " " + e.String()
			}
		}
		switch first, known := seen[key]; {
		case !ok:
		case !known:
			seen[key] = v
		case s.Replace(v, first):
			s.Remove(n)
			s.did("shape")
		}
	})
}

// takesOver lets the readers of a node read the outputs of an equal one.
func (s *site) takesOver(first, n *graph.Node) bool {
	for slot, v := range n.Outputs {
		if s.Used(v) && (first.Output(slot) == graph.NoValue || s.Held(v)) {
			return false
		}
	}
	for slot, v := range n.Outputs {
		if v != graph.NoValue {
			s.Replace(v, first.Output(slot))
		}
	}
	s.Remove(n)
	return true
}

// meaning is a text that two nodes share if they compute the same. ok is false for attributes that it
// does not write.
func meaning(n *graph.Node) (text string, ok bool) {
	var b strings.Builder
	fmt.Fprintf(&b, "%d/%d %v %d", n.Kind, n.Version, n.Inputs, len(n.Outputs))
	for i := range n.Attrs {
		a := &n.Attrs[i]
		fmt.Fprintf(&b, " %q=", a.Name)
		switch v := a.Value.(type) {
		case int64, string, []int64:
			fmt.Fprintf(&b, "%#v", v)
		case []string:
			fmt.Fprintf(&b, "%q", v)
		case float32:
			fmt.Fprintf(&b, "%x", math.Float32bits(v))
		case []float32:
			for _, x := range v {
				fmt.Fprintf(&b, "%x,", math.Float32bits(x))
			}
		case *graph.TensorData:
			if v == nil || v.Source == nil {
				return "", false
			}
			raw, err := v.Source.Bytes()
			if err != nil {
				return "", false
			}
			fmt.Fprintf(&b, "%d%v%s", v.DType, v.Dims, hex.EncodeToString(raw))
		default:
			return "", false
		}
	}
	return b.String(), true
}

// mergeConstants merges constants of equal type, dims and bytes, but no trained constant with one that is
// not.
func mergeConstants(s *site) error {
	groups := map[string]int{} // by type and dims: how many
	of := func(t *graph.TensorData) string { return fmt.Sprint(t.DType, t.Dims) }
	mergeable := func(v graph.ValueID) bool {
		t := s.weight(v)
		return t != nil && t.Source != nil && !s.Held(v) && len(s.Readers(v)) > 0
	}
	for _, v := range s.G.Initializers {
		if mergeable(v) {
			groups[of(s.weight(v))]++
		}
	}
	seed := maphash.MakeSeed() // it decides only which ones are compared
	alike := map[string][]graph.ValueID{}
	for _, v := range s.G.Initializers {
		if !mergeable(v) || groups[of(s.weight(v))] < 2 {
			continue
		}
		raw, err := s.bytes(v)
		if err != nil {
			return err
		}
		trained, _ := s.run.origins.Trained(s.G.ValueName(v))
		key := fmt.Sprint(of(s.weight(v)), trained, maphash.Bytes(seed, raw))
		merged := false
		for _, first := range alike[key] {
			other, err := s.bytes(first)
			if err != nil {
				return err
			}
			if merged = bytes.Equal(raw, other) && s.Replace(v, first); merged {
				s.did("constant")
				break
			}
		}
		if !merged {
			alike[key] = append(alike[key], v)
		}
	}
	return nil
}

// bytes are the contents of a constant.
func (s *site) bytes(v graph.ValueID) ([]byte, error) {
	raw, err := s.weight(v).Source.Bytes()
	if err != nil {
		return nil, fmt.Errorf("initializer %q: %w", s.G.ValueName(v), err)
	}
	return raw, nil
}
