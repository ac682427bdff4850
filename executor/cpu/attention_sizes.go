package cpu

import (
	"fmt"

	"memopt/executor"
)

// AttentionSizes are the sizes of an attention: queries [Batch, HeadsQ, SeqQ, Size], keys [Batch,
// HeadsKV, Total, Size] and values [Batch, HeadsKV, Total, SizeV], with Total including the first
// Past ones from a cache.
type AttentionSizes struct {
	Batch, HeadsQ, HeadsKV, SeqQ, Past, Total, Size, SizeV int
}

// HeadLayout says where the rows of each head lie: First is the place of the first element; the
// others are the distances between entries of the batch, between heads and between rows.
type HeadLayout struct{ First, Batch, Head, Row int }

// PackedHeads is the layout of heads that lie side by side in rows: [batch, seq, heads*size].
func PackedHeads(seq, heads, size int) HeadLayout {
	return HeadLayout{Batch: seq * heads * size, Head: size, Row: heads * size}
}

// SeparateHeads is the layout of heads with an axis of their own: [batch, heads, seq, size].
func SeparateHeads(seq, heads, size int) HeadLayout {
	return HeadLayout{Batch: heads * seq * size, Head: seq * size, Row: size}
}

// headsOfSeveral is the layout of one of several things that each head holds side by side: [batch,
// seq, heads, things, size].
func headsOfSeveral(seq, heads, things, thing, size int) HeadLayout {
	return HeadLayout{
		First: thing * size, Batch: seq * heads * things * size, Head: things * size, Row: heads * things * size,
	}
}

// projectedHeads is the layout of the queries (0), keys (1) or values (2) that readProjected's
// weights make: side by side in rows.
func projectedHeads(s *AttentionSizes, hidden, i int) HeadLayout {
	cols, size := 2*hidden+s.HeadsQ*s.SizeV, s.Size
	if i == 2 {
		size = s.SizeV
	}
	return HeadLayout{First: i * hidden, Batch: s.SeqQ * cols, Head: size, Row: cols}
}

// AttentionMask says where a mask's elements lie. It is broadcast to [batch, heads of queries,
// queries, keys]; keys from column Cols on are not admitted.
type AttentionMask struct {
	Strides [4]int
	Cols    int
}

// Set reads a mask's shape and reports whether it broadcasts. A shorter last dim leaves
// keys out; one of length 1 does so only if padded, and is broadcast otherwise.
func (m *AttentionMask) Set(shape []int, s *AttentionSizes, padded bool) bool {
	if len(shape) > 4 || len(shape) == 0 {
		return false
	}
	full := [4]int{s.Batch, s.HeadsQ, s.SeqQ, s.Total}
	stride := 1
	m.Strides, m.Cols = [4]int{}, s.Total
	for i := len(shape) - 1; i >= 0; i-- {
		at := 4 - len(shape) + i
		switch d := shape[i]; {
		case d == full[at]:
			m.Strides[at] = stride
		case at == 3 && d < full[at] && (padded || d > 1):
			m.Strides[at], m.Cols = stride, d
		case d != 1:
			return false
		}
		stride *= shape[i]
	}
	return true
}

// SetBias reads the shape of the bias that com.microsoft's operators add to the scores.
func (m *AttentionMask) SetBias(shape []int, s *AttentionSizes) error {
	if len(shape) != 4 || !m.Set(shape, s, false) || shape[3] != s.Total {
		return fmt.Errorf("the attention bias has shape %v, wanted one that broadcasts to [%d %d %d %d]",
			shape, s.Batch, s.HeadsQ, s.SeqQ, s.Total)
	}
	return nil
}

// paddingForm is how a mask of paddings is given.
type paddingForm struct {
	Mask         bool // an element for each key
	Batch, Query int  // strides of these
	Starts       bool // the ends of all batch entries are followed by the starts
}

// Read reads the shape of a mask of paddings: [batch, total], [batch, seqQ, total], [batch]
// lengths, or, if starts may be given, [2*batch] ends and starts.
func (f *paddingForm) Read(shape []int, s *AttentionSizes, starts bool) error {
	*f = paddingForm{}
	switch {
	case len(shape) == 2 && shape[0] == s.Batch && shape[1] == s.Total:
		f.Mask, f.Batch = true, s.Total
	case len(shape) == 3 && shape[0] == s.Batch && shape[1] == s.SeqQ && shape[2] == s.Total:
		f.Mask, f.Batch, f.Query = true, s.SeqQ*s.Total, s.Total
	case len(shape) == 1 && shape[0] == s.Batch:
	case len(shape) == 1 && shape[0] == 2*s.Batch && starts:
		f.Starts = true
	default:
		return fmt.Errorf("the mask has shape %v; there are %d batch entries, %d queries and %d keys",
			shape, s.Batch, s.SeqQ, s.Total)
	}
	return nil
}

// ReadAttention reads the shapes of Attention's inputs: heads are the attributes q_num_heads and
// kv_num_heads.
func ReadAttention(s *AttentionSizes, in [][]int, heads [2]int) error {
	q, key, v := in[0], in[1], in[2]
	switch {
	case len(q) == 4 && len(key) == 4 && len(v) == 4:
		*s = AttentionSizes{Batch: q[0], HeadsQ: q[1], HeadsKV: key[1], SeqQ: q[2], Total: key[2], Size: q[3],
			SizeV: v[3]}
		if key[0] != q[0] || v[0] != q[0] || v[1] != key[1] || v[2] != key[2] || key[3] != q[3] {
			return fmt.Errorf("queries, keys and values have shapes %v, %v and %v, which do not fit", q, key, v)
		}
	case len(q) == 3 && len(key) == 3 && len(v) == 3:
		nq, nkv := heads[0], heads[1]
		if nq < 1 || nkv < 1 || q[2]%nq != 0 || key[2]%nkv != 0 || v[2]%nkv != 0 {
			return fmt.Errorf("queries, keys and values have shapes %v, %v and %v, which %d query heads and %d key "+
				"heads do not divide", q, key, v, nq, nkv)
		}
		*s = AttentionSizes{Batch: q[0], HeadsQ: nq, HeadsKV: nkv, SeqQ: q[1], Total: key[1], Size: q[2] / nq,
			SizeV: v[2] / nkv}
		if key[0] != q[0] || v[0] != q[0] || v[1] != key[1] || key[2]/nkv != s.Size {
			return fmt.Errorf("queries, keys and values have shapes %v, %v and %v, which do not fit", q, key, v)
		}
	default:
		return fmt.Errorf("queries, keys and values have shapes %v, %v and %v, wanted rank 3 or 4", q, key, v)
	}
	if s.HeadsKV < 1 || s.HeadsQ%s.HeadsKV != 0 {
		return fmt.Errorf("has %d query heads and %d key heads; the first must be a multiple of the second",
			s.HeadsQ, s.HeadsKV)
	}
	if len(in) > 5 && in[4] != nil && in[5] != nil {
		pk, pv := in[4], in[5]
		if len(pk) != 4 || len(pv) != 4 || pk[0] != s.Batch || pv[0] != s.Batch || pk[1] != s.HeadsKV ||
			pv[1] != s.HeadsKV ||
			pk[2] != pv[2] || pk[3] != s.Size || pv[3] != s.SizeV {
			return fmt.Errorf(
				"past key and value have shapes %v and %v, wanted [%d %d length %d] and [%d %d length %d]",
				pk, pv, s.Batch, s.HeadsKV, s.Size, s.Batch, s.HeadsKV, s.SizeV)
		}
		s.Past = pk[2]
		s.Total += s.Past
	}
	return nil
}

// readMultiHead reads the shapes of MultiHeadAttention's inputs, as its kernel's doc comment lists
// them; fresh is the number of keys that are not from the cache. s has the number of heads.
func readMultiHead(s *AttentionSizes, q, key, v, past, pastV []int) (fresh int, err error) {
	n := s.HeadsQ
	bad := fmt.Errorf
	switch {
	case len(q) == 5 && key == nil && v == nil && q[2] == n && q[3] == 3:
		s.Batch, s.SeqQ, s.Size, s.SizeV, fresh = q[0], q[1], q[4], q[4], q[1]
	case len(q) != 3 || q[2]%n != 0 || key == nil:
		return 0, bad("query and key have shapes %v and %v, wanted [batch length %d*size] and a key, or [batch "+
			"length %d 3 size]", q, key, n, n)
	default:
		s.Batch, s.SeqQ, s.Size, s.SizeV = q[0], q[1], q[2]/n, q[2]/n
		switch {
		case len(key) == 5 && v == nil && key[0] == q[0] && key[2] == n && key[3] == 2 && key[4] == s.Size:
			fresh = key[1]
		case len(key) == 3 && len(v) == 3 && key[0] == q[0] && key[2] == q[2] && v[0] == q[0] && v[1] == key[1] &&
			v[2]%n == 0:
			fresh, s.SizeV = key[1], v[2]/n
		case len(key) == 4 && len(v) == 4 && key[0] == q[0] && key[1] == n && key[3] == s.Size && v[0] == q[0] &&
			v[1] == n && v[2] == key[2]:
			fresh, s.SizeV = key[2], v[3]
		default:
			return 0, bad("query, key and value have shapes %v, %v and %v, which do not fit", q, key, v)
		}
	}
	s.Past, s.Total = 0, fresh
	if past != nil && pastV != nil {
		if len(past) != 4 || len(pastV) != 4 || past[0] != s.Batch || pastV[0] != s.Batch || past[1] != n ||
			pastV[1] != n ||
			past[2] != pastV[2] || past[3] != s.Size || pastV[3] != s.SizeV {
			return 0, bad("past key and value have shapes %v and %v, wanted [%d %d length %d] and [%d %d length %d]",
				past, pastV, s.Batch, n, s.Size, s.Batch, n, s.SizeV)
		}
		s.Past = past[2]
		s.Total += s.Past
	}
	return fresh, nil
}

// readProjected reads the shapes of com.microsoft's Attention; hidden is the width of all query
// heads together. s has the number of heads, and the node p may state the widths of queries, keys
// and values.
func readProjected(s *AttentionSizes, p *executor.Prep, x, w, past []int) (hidden int, err error) {
	n := s.HeadsQ
	if len(x) != 3 || len(w) != 2 || x[2] != w[0] {
		return 0, fmt.Errorf("input and weights have shapes %v and %v, wanted [batch length in] and [in out]", x, w)
	}
	hidden, value := w[1]/3, w[1]/3
	if sizes := p.Node.IntList("qkv_hidden_sizes", nil); len(sizes) == 3 {
		hidden, value = int(sizes[0]), int(sizes[2])
		if sizes[1] != sizes[0] {
			return 0, fmt.Errorf("attribute qkv_hidden_sizes is %v, wanted queries as wide as keys", sizes)
		}
	}
	if hidden < 0 || value < 0 || 2*hidden+value != w[1] || hidden%n != 0 || value%n != 0 {
		return 0, fmt.Errorf("the weights have shape %v, wanted columns for queries, keys and values of %d heads", w, n)
	}
	s.Batch, s.SeqQ, s.Size, s.SizeV, s.Past, s.Total = x[0], x[1], hidden/n, value/n, 0, x[1]
	if past != nil {
		if len(past) != 5 || past[0] != 2 || past[1] != s.Batch || past[2] != n || past[4] != s.Size ||
			s.Size != s.SizeV {
			return 0, fmt.Errorf("past has shape %v, wanted [2 %d %d length %d], and values as wide as keys",
				past, s.Batch, n, s.Size)
		}
		s.Past = past[3]
		s.Total += s.Past
	}
	return hidden, nil
}
