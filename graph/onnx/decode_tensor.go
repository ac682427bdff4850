package onnx

import (
	"fmt"
	"strconv"

	"memopt/graph"
)

// tensorParts is where the contents of a TensorProto lie.
type tensorParts struct {
	raw      []byte // raw_data
	hasRaw   bool
	typed    bool // one of the typed fields of numbers is present
	segment  bool
	place    int64 // data_location
	external []graph.Property
}

// DecodeTensor reads a TensorProto on its own, as the files of a test data set
// have it. The tensor refers to data.
func DecodeTensor(data []byte, path string) (*graph.TensorData, error) {
	d := &decoder{path: path, files: newExternals(path), names: map[string]string{}}
	t, err := d.tensor(reader{rest: data})
	if err != nil {
		return nil, &FormatError{Path: path, Err: err}
	}
	return t, nil
}

// tensor reads a TensorProto without looking at its contents.
func (d *decoder) tensor(r reader) (*graph.TensorData, error) {
	t := &graph.TensorData{Wire: r.rest}
	p, err := d.tensorFields(t, r)
	if err == nil {
		err = d.tensorSource(t, p)
	}
	if err != nil {
		return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	return t, nil
}

func (d *decoder) tensorFields(t *graph.TensorData, r reader) (p tensorParts, err error) {
	var unused []byte // presence survives in Wire
	var f field
	for {
		more, err := r.next(&f)
		if !more || err != nil {
			return p, err
		}
		switch f.num {
		case tensorDims:
			t.Dims, err = varints(t.Dims, &f, "TensorProto.dims")
		case tensorDType:
			err = dtype(&f, "TensorProto.data_type", &t.DType)
		case tensorName:
			err = text(&f, "TensorProto.name", &t.Name, &unused)
		case tensorDoc:
			err = text(&f, "TensorProto.doc_string", &t.Doc, &unused)
		case tensorRaw:
			p.hasRaw = true
			p.raw, err = f.bytes("TensorProto.raw_data")
		case tensorStrings:
			var s string
			s, err = f.string("TensorProto.string_data")
			t.Strings = append(t.Strings, s)
		case tensorFloats, tensorInt32s, tensorInt64s, tensorDoubles, tensorUint64s:
			p.typed = true
		case tensorSegment:
			p.segment = true
		case tensorDataPlace:
			p.place, err = f.varint("TensorProto.data_location")
		case tensorExternal:
			err = metadata(&f, &p.external)
		}
		if err != nil {
			return p, err
		}
	}
}

// tensorSource checks a tensor's size and says how to get at its contents.
func (d *decoder) tensorSource(t *graph.TensorData, p tensorParts) error {
	if t.DType == graph.Undefined {
		return fmt.Errorf("data_type is missing or 0 (undefined)")
	}
	size, err := checkedSize(t)
	if err != nil {
		return err
	}
	switch {
	case p.place == placeExternal:
		return d.externalSource(t, p.external, size)
	case p.segment:
		t.Source = failing{
			fmt.Errorf("it is stored in segments, which is not supported; save the model again with raw_data"),
		}
	case t.DType == graph.String:
		return checkStrings(t, p)
	case p.typed && len(p.raw) == 0:
		t.Source = &typed{wire: t.Wire, dtype: t.DType}
	case p.hasRaw:
		t.Source = graph.Raw(p.raw)
		if t.DType.Valid() && int64(len(p.raw)) != size {
			return fmt.Errorf("raw_data has %d bytes, wanted %d for %v%v", len(p.raw), size, t.DType, t.Dims)
		}
	}
	return nil
}

// checkedSize returns the tensor's size in bytes after checking its dims. The
// messages of the graph package name the tensor, as does the caller.
func checkedSize(t *graph.TensorData) (int64, error) {
	for i, dim := range t.Dims {
		if dim < 0 {
			return 0, fmt.Errorf("dim %d is %d, wanted 0 or more", i, dim)
		}
	}
	size, err := t.Bytes()
	if err != nil {
		return 0, fmt.Errorf("dims %v of %v hold more than 2^63 bits", t.Dims, t.DType)
	}
	return size, nil
}

func checkStrings(t *graph.TensorData, p tensorParts) error {
	n, err := t.Elements()
	if err != nil {
		return err
	}
	if p.hasRaw && len(p.raw) > 0 {
		return fmt.Errorf("it holds strings, but has raw_data; strings belong in string_data")
	}
	if len(t.Strings) > 0 && int64(len(t.Strings)) != n {
		return fmt.Errorf("string_data has %d elements, wanted %d for dims %v", len(t.Strings), n, t.Dims)
	}
	return nil
}

// externalSource reads the entries of external_data.
func (d *decoder) externalSource(t *graph.TensorData, entries []graph.Property, size int64) error {
	x, err := parseExternal(entries)
	if err != nil {
		return err
	}
	t.External = x
	switch {
	case t.DType == graph.String:
		return fmt.Errorf("strings cannot lie in external data (%q)", x.Location)
	case x.Length >= 0 && t.DType.Valid() && x.Length != size:
		return fmt.Errorf("external data %q: length is %d, wanted %d for %v%v", x.Location, x.Length, size,
			t.DType, t.Dims)
	}
	d.files.refer(x.Location)
	t.Source = &outside{files: d.files, ext: x, size: size}
	return nil
}

func parseExternal(entries []graph.Property) (*graph.External, error) {
	x := &graph.External{Length: -1}
	for _, e := range entries {
		var err error
		switch e.Key {
		case "location":
			x.Location = e.Value
		case "offset":
			x.Offset, err = count(e)
		case "length":
			x.Length, err = count(e)
		case "checksum":
			x.Checksum = e.Value
		}
		if err != nil {
			return nil, err
		}
	}
	return x, checkLocation(x.Location)
}

func count(e graph.Property) (int64, error) {
	n, err := strconv.ParseInt(e.Value, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("external_data: %s is %.40q, wanted a number of bytes", e.Key, e.Value)
	}
	return n, nil
}

// sparse reads a SparseTensorProto.
func (d *decoder) sparse(r reader) (*graph.Sparse, error) {
	s := &graph.Sparse{Wire: r.rest}
	var values, indices merged
	err := r.each(func(f *field) (err error) {
		switch f.num {
		case sparseValues:
			return values.add(f, "SparseTensorProto.values")
		case sparseIndices:
			return indices.add(f, "SparseTensorProto.indices")
		case sparseDims:
			s.Dims, err = varints(s.Dims, f, "SparseTensorProto.dims")
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if !values.seen || !indices.seen {
		return nil, fmt.Errorf("a sparse tensor lacks its values or its indices")
	}
	if s.Values, err = d.tensor(values.reader); err != nil {
		return nil, fmt.Errorf("values: %w", err)
	}
	if s.Indices, err = d.tensor(indices.reader); err != nil {
		return nil, fmt.Errorf("indices: %w", err)
	}
	if _, err := checkedSize(&graph.TensorData{DType: s.Values.DType, Dims: s.Dims}); err != nil {
		return nil, fmt.Errorf("sparse tensor %q: %w", s.Values.Name, err)
	}
	return s, nil
}
