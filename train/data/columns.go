package data

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"memopt/executor"
	"memopt/graph"
	"memopt/hint"
)

// array is a file's data for one input: rows, or the whole input.
type array struct {
	*file
	key     string // its name in the file
	where   string // names it in errors
	dtype   graph.DType
	shape   []int // of all rows, or of the input
	data    []byte
	stride  int64   // from row to row, in bytes; 0 means contiguous rows
	divisor float64 // of the elements; 0 means no division
}

// column is the data of one input: rows of one array after the other.
type column struct {
	arrays []array
	ends   []int64 // by array: rows up to its end
	fill   []convert
}

// tableSource has a row of every input per sample.
type tableSource struct {
	files
	inputs  []Input
	names   map[string]string // of Options
	columns []column
	samples int64
	scheme  string // for Identity
}

// newTable returns a source without rows.
func newTable(inputs []Input, names map[string]string, scheme string) *tableSource {
	return &tableSource{inputs: slices.Clone(inputs), names: names, columns: make([]column, len(inputs)),
		scheme: scheme}
}

// closeAfter closes the files if there was an error.
func (s *tableSource) closeAfter(err *error) {
	if *err != nil {
		s.Close()
	}
}

// keyOf returns the name of an input in the data: that of Options, otherwise its own.
func (s *tableSource) keyOf(in *Input) string {
	if key, ok := s.names[in.Name]; ok {
		return key
	}
	return in.Name
}

// group adds arrays that belong together: each input has one or more of them, in all the same
// number of rows. where and have, the names of all that is there, are for errors.
func (s *tableSource) group(where string, arrays []array, have []string) error {
	rows, first := int64(-1), ""
	for i := range s.inputs {
		in := &s.inputs[i]
		list := s.arraysOf(i, arrays)
		if len(list) == 0 {
			return fmt.Errorf("%s: nothing is called %q, for input %q (%v%s); there is %s: rename it, "+
				"or say what holds the input (%v)",
				where, s.keyOf(in), in.Name, in.DType, dims(in.Shape), listShort(have),
				hint.Names.With(in.Name+"=NAME"))
		}
		n := int64(0)
		for _, a := range list {
			if err := s.add(i, a); err != nil {
				return err
			}
			if in.Batched {
				n += int64(a.shape[0])
			}
		}
		switch {
		case !in.Batched:
		case rows < 0:
			rows, first = n, list[0].where
		case n != rows:
			return fmt.Errorf("%s: has %d rows, and %s has %d: wanted as many for each input; for one that is no "+
				"row of a sample, but given whole, bind the symbol of its first dim",
				list[0].where, n, first, rows)
		}
	}
	s.samples += max(rows, 0)
	return s.unlikeSamples(rows)
}

// unlikeSamples refuses an array that is given whole to every batch and has as many rows as there are
// samples, unless the caller knows that they count something else: samples are drawn in another order than
// its rows have.
func (s *tableSource) unlikeSamples(rows int64) error {
	for i := range s.inputs {
		in := &s.inputs[i]
		if in.Batched || in.Whole || rows < 2 || len(in.Shape) == 0 || int64(in.Shape[0]) != rows {
			continue
		}
		return fmt.Errorf("%s: has %d rows, as many as there are samples, but the first dim of input %q (%v%s) is not "+
			"that of the batch, so every batch would get all of them: export the model with a symbol there; bind "+
			"the batch's to the same number if it counts samples, and to the samples of a batch, another number, if "+
			"not", s.columns[i].arrays[0].where, rows, in.Name, in.DType, dims(in.Shape))
	}
	return nil
}

// arraysOf returns the arrays of input i: those with its key, else, where all arrays are numbered
// and there are as many as inputs, the one of its place.
func (s *tableSource) arraysOf(i int, arrays []array) []array {
	key := s.keyOf(&s.inputs[i])
	var list []array
	for _, a := range arrays {
		if a.key == key {
			list = append(list, a)
		}
	}
	if len(list) > 0 || len(arrays) != len(s.inputs) {
		return list
	}
	for n := range arrays {
		key := fmt.Sprintf("%s%d", numberedPrefix, n)
		at := slices.IndexFunc(arrays, func(a array) bool { return a.key == key })
		if at < 0 {
			return nil
		}
		if n == i {
			list = arrays[at:][:1]
		}
	}
	return list
}

// listShort joins the first of many names.
func listShort(names []string) string {
	const most = 8
	if len(names) == 0 {
		return "nothing"
	}
	names = slices.Clone(names)
	for i, n := range names {
		names[i] = strconv.Quote(n)
	}
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

// add appends an array to the column of an input, which it must fit.
func (s *tableSource) add(i int, a array) error {
	in, col := &s.inputs[i], &s.columns[i]
	row := a.shape
	if in.Batched {
		if len(row) == 0 {
			return fmt.Errorf("%s: is a scalar; wanted rows, one per sample, for input %q",
				a.where, in.Name)
		}
		row = row[1:]
	}
	if err := fit(in, row); err != nil {
		return fmt.Errorf("%s: %w", a.where, err)
	}
	c, err := conversion(a.dtype, in)
	if a.divisor != 0 {
		c, err = scaled(a.dtype, in.DType, a.divisor)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", a.where, err)
	}
	n := int64(1)
	if in.Batched {
		n = int64(a.shape[0])
	} else if len(col.arrays) > 0 {
		return s.addAgain(col, a)
	}
	if a.stride == 0 {
		size, _ := executor.Bytes(a.dtype, row)
		a.stride = int64(size)
	}
	if k := len(col.ends); k > 0 {
		n += col.ends[k-1]
	}
	col.arrays, col.ends, col.fill = append(col.arrays, a), append(col.ends, n), append(col.fill, c)
	return nil
}

// addAgain makes sure that a further array of an input that is no sample's is the first one again.
func (s *tableSource) addAgain(col *column, a array) error {
	first := &col.arrays[0]
	if a.dtype != first.dtype || !slices.Equal(a.data, first.data) {
		return fmt.Errorf("%s: differs from %s: the input is not batched, and must be the same for "+
			"all samples", a.where, first.where)
	}
	return nil
}

// fit compares the shape of a row with that of an input, whose Unknown dims it sets.
func fit(in *Input, row []int) error {
	same := len(row) == len(in.Shape)
	for axis := range row {
		same = same && (row[axis] == in.Shape[axis] || in.Shape[axis] == Unknown)
	}
	if !same {
		what := "each row"
		if !in.Batched {
			what = "it"
		}
		return fmt.Errorf("%s is of shape %v; input %q takes %s", what, row, in.Name, dims(in.Shape))
	}
	in.Shape = slices.Clone(row)
	return nil
}

// dims prints a shape with Unknown dims.
func dims(shape []int) string {
	text := make([]string, len(shape))
	for i, d := range shape {
		if text[i] = fmt.Sprint(d); d == Unknown {
			text[i] = "?"
		}
	}
	return "[" + strings.Join(text, " ") + "]"
}

// finish checks the source as a whole and returns it.
func (s *tableSource) finish() (Source, error) {
	batched := slices.ContainsFunc(s.inputs, func(in Input) bool { return in.Batched })
	switch {
	case !batched:
		return nil, fmt.Errorf("no input has a dim that counts samples, of %s", listInputs(s.inputs))
	case s.samples == 0:
		return nil, fmt.Errorf("%s: the data has no samples", s.files[0].path)
	}
	for i := range s.inputs {
		in := &s.inputs[i]
		s.scheme += fmt.Sprintf("\n%q=", in.Name)
		for _, a := range s.columns[i].arrays {
			s.scheme += fmt.Sprintf("%q %v%v;", a.key, a.dtype, a.shape)
		}
	}
	return s, nil
}

// Inputs and Samples are those of Source.
func (s *tableSource) Inputs() []Input { return s.inputs }
func (s *tableSource) Samples() int64  { return s.samples }

// Tokens is the length of the rows of the first input whose name is one of tokens.
func (s *tableSource) Tokens() int64 {
	for _, in := range s.inputs {
		if in.Batched && len(in.Shape) == 1 && in.DType.IsInteger() && usualRole(in.Name) == roleTokens {
			return int64(in.Shape[0])
		}
	}
	return 0
}

// Fill copies a row of every column, as Source has it.
func (s *tableSource) Fill(i int64, row int, batch []*executor.Tensor) (err error) {
	defer func(old bool) {
		debug.SetPanicOnFault(old)
		if r := recover(); r != nil {
			err = fault(r)
		}
	}(debug.SetPanicOnFault(true))
	i %= s.samples
	for j := range s.columns {
		t, dst := batch[j], batch[j].Data
		from, at := 0, int64(0)
		if s.inputs[j].Batched {
			n := len(t.Data) / t.Shape[0]
			dst = t.Data[row*n:][:n]
			from, at = s.columns[j].find(i)
		} else if row > 0 {
			continue
		}
		if err := s.columns[j].copy(dst, from, at, t.DType); err != nil {
			return err
		}
	}
	return nil
}

// find returns the array of a row, and the row's place in it.
func (c *column) find(i int64) (int, int64) {
	from, _ := slices.BinarySearch(c.ends, i+1)
	if from > 0 {
		i -= c.ends[from-1]
	}
	return from, i
}

// copy converts one row to the type of the input.
func (c *column) copy(dst []byte, from int, at int64, to graph.DType) error {
	a := &c.arrays[from]
	n := len(dst) / (to.Bits() / 8) * (a.dtype.Bits() / 8)
	c.fill[from](dst, a.data[at*a.stride:][:n])
	a.used(n)
	return a.m.Check()
}

// Check reads the columns whose elements must lie in a range, as Source has it.
func (s *tableSource) Check(ctx context.Context) error {
	for i := range s.inputs {
		in := &s.inputs[i]
		for j := range s.columns[i].arrays {
			a := &s.columns[i].arrays[j]
			b := boundOf(in)
			if a.dtype == graph.Bool {
				b = bound{classes: 2}
			} else if a.divisor != 0 || b.holds(a.dtype) {
				continue
			}
			if err := a.check(ctx, in, b); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// check reads all elements of an array.
func (a *array) check(ctx context.Context, in *Input, b bound) error {
	row, rows := a.shape, int64(1)
	if in.Batched {
		row, rows = a.shape[1:], int64(a.shape[0])
	}
	n, _ := executor.Bytes(a.dtype, row)
	if n == 0 || rows == 0 {
		return nil
	}
	size := int64(a.dtype.Bits() / 8)
	perRow := int64(n) / size
	at, err := scan(ctx, rows, scanBytes/a.stride, func(from, to int64) int64 {
		defer a.used(int((to - from) * a.stride))
		if a.stride == int64(n) {
			if at, _ := b.outside(a.dtype, a.data[from*a.stride:to*a.stride]); at >= 0 {
				return from + int64(at)/perRow
			}
			return -1
		}
		for r := from; r < to; r++ {
			if at, _ := b.outside(a.dtype, a.data[r*a.stride:][:n]); at >= 0 {
				return r
			}
		}
		return -1
	})
	if err == nil {
		err = a.m.Check()
	}
	if err != nil || at < 0 {
		return err
	}
	place, v := b.outside(a.dtype, a.data[at*a.stride:][:n])
	return a.rangeError(in, b, at, row, place, v)
}

// rangeError reports an element that is not in the range, with its row.
func (a *array) rangeError(in *Input, b bound, at int64, row []int, place int, v int64) error {
	index := make([]int, len(row))
	for axis := len(row) - 1; axis >= 0; axis-- {
		index[axis], place = place%row[axis], place/row[axis]
	}
	text := a.where
	if in.Batched {
		text += fmt.Sprintf(": row %d", at)
	}
	if len(row) > 0 {
		text += fmt.Sprintf(", element %v", index)
	}
	wanted := fmt.Sprintf("from 0 to %d", b.classes-1)
	if b.hasIgnore {
		wanted += fmt.Sprintf(", or %d", b.ignore)
	}
	return fmt.Errorf("%s is %d; input %q takes elements %s", text, v, in.Name, wanted)
}

// Identity is that of Source.
func (s *tableSource) Identity() (string, error) { return identity(s.scheme, s.files) }
