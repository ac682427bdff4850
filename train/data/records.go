package data

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"memopt/executor"
	"memopt/graph"
	"memopt/hint"
)

// field is a part of a record.
type field struct {
	name    string // "_" for a field without a reader
	dtype   graph.DType
	shape   []int
	offset  int64
	divisor float64 // of the elements; 0 means no division
}

// maxRecord bounds the bytes of a record, and maxFields the fields.
const (
	maxRecord = 1 << 40
	maxFields = 1 << 10
)

// typeAliases are names of types that Python has and ONNX has not.
var typeAliases = map[string]graph.DType{"float32": graph.Float32, "float64": graph.Float64}

// parseRecord reads the description of a record: fields one after the other, without gaps, in
// little-endian order.
//
//	field {"," field}
//	field = name ":" type ["[" dim {"," dim} "]"] ["/" divisor]
//
// A name is that of an input or its entry in Options.Names, or _ for bytes to skip. For example,
// "label:uint8,image:uint8[3,32,32]/255" is a record of CIFAR-10. With a divisor integers of 8 and
// 16 bits become floats: float(element)/divisor, computed in float64.
func parseRecord(text string) (fields []field, size int64, err error) {
	rest := strings.TrimSpace(text)
	for {
		var f field
		if f, rest, err = parseField(rest); err != nil {
			return nil, 0, fmt.Errorf("record %.200q: %w", text, err)
		}
		f.offset = size
		n, ok := executor.Bytes(f.dtype, f.shape)
		if size += int64(n); !ok || n == 0 || int64(n) > maxRecord || size > maxRecord {
			return nil, 0, fmt.Errorf("record %.200q: field %q has no size that a record can have",
				text, f.name)
		}
		for _, g := range fields {
			if g.name == f.name && f.name != skipped {
				return nil, 0, fmt.Errorf("record %.200q: field %q occurs twice", text, f.name)
			}
		}
		if fields = append(fields, f); len(fields) > maxFields {
			return nil, 0, fmt.Errorf("record %.200q: more than %d fields", text, maxFields)
		}
		if rest == "" {
			return fields, size, nil
		}
		if !strings.HasPrefix(rest, ",") {
			return nil, 0, fmt.Errorf("record %.200q: %.20q behind field %q, wanted a comma",
				text, rest, f.name)
		}
		rest = strings.TrimSpace(rest[1:])
	}
}

// skipped is the name of a field without a reader.
const skipped = "_"

// parseField reads a field and returns the rest of the text.
func parseField(text string) (f field, rest string, err error) {
	name, rest, ok := strings.Cut(text, ":")
	if f.name = strings.TrimSpace(name); !ok || f.name == "" || strings.ContainsAny(f.name, ",[]") {
		return f, "", fmt.Errorf("%.40q, wanted NAME:TYPE[DIMS], such as image:uint8[3,32,32]", text)
	}
	n := strings.IndexAny(rest, "[,/")
	if n < 0 {
		n = len(rest)
	}
	typ := strings.TrimSpace(rest[:n])
	if f.dtype, ok = typeAliases[typ]; !ok {
		f.dtype, ok = graph.ParseDType(typ)
	}
	if !ok || f.dtype.Bits() == 0 || f.dtype.Bits()%8 != 0 || converter(f.dtype, f.dtype) == nil {
		return f, "", fmt.Errorf("field %q: type %.40q, wanted one such as uint8, int64, float",
			f.name, typ)
	}
	if rest = rest[n:]; strings.HasPrefix(rest, "[") {
		if f.shape, rest, err = parseDims(rest[1:]); err != nil {
			return f, "", fmt.Errorf("field %q: %w", f.name, err)
		}
	}
	if rest = strings.TrimSpace(rest); strings.HasPrefix(rest, "/") {
		number, _, _ := strings.Cut(rest[1:], ",")
		rest = rest[1+len(number):]
		f.divisor, err = strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || !(math.Abs(f.divisor) > 0) || math.IsInf(f.divisor, 0) {
			return f, "", fmt.Errorf("field %q: divisor %.40q, wanted a number that is not 0",
				f.name, number)
		}
	}
	return f, rest, nil
}

// parseDims reads the dims of a field up to the closing bracket.
func parseDims(text string) (shape []int, rest string, err error) {
	list, rest, ok := strings.Cut(text, "]")
	if !ok {
		return nil, "", fmt.Errorf("%.40q has no closing bracket", "["+text)
	}
	for _, d := range strings.Split(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(d))
		if err != nil || n <= 0 {
			return nil, "", fmt.Errorf("dim %.40q, wanted a positive number", d)
		}
		shape = append(shape, n)
	}
	return shape, strings.TrimSpace(rest), nil
}

// openRecords opens files of records of one size.
func openRecords(places []place, inputs []Input, o Options) (_ Source, err error) {
	if o.Record == "" {
		return nil, fmt.Errorf("%s: records need a description (%v), such as image:uint8[3,32,32],label:uint8",
			places[0].path, hint.Record)
	}
	fields, size, err := parseRecord(o.Record)
	if err != nil {
		return nil, err
	}
	s := newTable(inputs, o.Names, formatRecords+" "+strings.Join(strings.Fields(o.Record), ""))
	defer s.closeAfter(&err)
	for _, p := range places {
		f, err := openFile(p.path)
		if err != nil {
			return nil, err
		}
		s.files = append(s.files, f)
		n := int64(len(f.data))
		if n%size != 0 {
			return nil, fmt.Errorf("%s: has %d bytes, which is no whole number of records of %d bytes (%s)",
				p.path, n, size, o.Record)
		}
		list := make([]array, 0, len(fields))
		for _, field := range fields {
			if field.name != skipped {
				list = append(list, field.array(f, n/size, size))
			}
		}
		if err := s.group(p.path, list, keysOf(list)); err != nil {
			return nil, err
		}
	}
	return s.finish()
}

// array returns the array of a field in a file of records.
func (f field) array(in *file, records, size int64) array {
	a := array{file: in, key: f.name, where: fmt.Sprintf("%s: field %q", in.path, f.name), dtype: f.dtype,
		shape: append([]int{int(records)}, f.shape...), stride: size, divisor: f.divisor}
	if records > 0 {
		a.data = in.data[f.offset:]
	}
	return a
}
