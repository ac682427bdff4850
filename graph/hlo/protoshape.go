package hlo

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// protoShape reads ShapeProto.
func protoShape(body []byte, depth int) (Shape, error) {
	if depth > maxNesting {
		return Shape{}, fmt.Errorf("tuples nest deeper than %d", maxNesting)
	}
	var s Shape
	var dynamic []int64
	var element uint64
	err := each(body, func(f field) (err error) {
		switch f.num {
		case shapeType:
			element = f.n
		case shapeDims:
			s.Dims, err = f.numbers(s.Dims)
		case shapeTuple:
			var e Shape
			e, err = protoShape(f.body, depth+1)
			s.Tuple = append(s.Tuple, e)
		case shapeDynamic:
			dynamic, err = f.numbers(dynamic)
		case shapeLayout:
			err = each(f.body, func(f field) (err error) {
				switch f.num {
				case layoutMinorToMajor:
					s.Layout, err = f.numbers(s.Layout)
				case layoutBits:
					s.Bits = int64(min(f.n, 999))
				case layoutSpace:
					s.Space = int64(min(f.n, 999))
				}
				return err
			})
		}
		return err
	})
	if err != nil {
		return Shape{}, err
	}
	var ok bool
	if s.Type, ok = primitives[element]; !ok {
		return Shape{}, fmt.Errorf("type %d is unknown", element)
	}
	if len(s.Tuple) > 0 && !s.IsTuple() {
		return Shape{}, fmt.Errorf("a %s has elements of a tuple", s.Type)
	}
	if slices.ContainsFunc(s.Dims, func(d int64) bool { return d < 0 }) {
		return Shape{}, fmt.Errorf("shape %s has a dim without a size", &s)
	}
	if len(s.Layout) > 0 && len(s.Layout) != len(s.Dims) {
		return Shape{}, fmt.Errorf("a layout of %d dims is of shape %s", len(s.Layout), &s)
	}
	if slices.Contains(dynamic, 1) && len(dynamic) == len(s.Dims) {
		for _, d := range dynamic {
			s.Dynamic = append(s.Dynamic, d != 0)
		}
	}
	return s, nil
}

// protoOperandAlias reads OutputOperandAliasing.
func protoOperandAlias(body []byte) (a OperandAlias, err error) {
	err = each(body, func(f field) (err error) {
		switch f.num {
		case 1:
			a.Output, err = f.numbers(a.Output)
		case 2:
			a.Operand = int64(f.n)
		case 3:
			a.Index, err = f.numbers(a.Index)
		}
		return err
	})
	return a, err
}

// protoSharding writes OpSharding as the text has it.
func protoSharding(body []byte, depth int) (string, error) {
	if depth > maxNesting {
		return "", fmt.Errorf("shardings nest deeper than %d", maxNesting)
	}
	var kind uint64
	var tiles, devices, reshape, order []int64
	var parts, last []string
	replicateLast := false
	err := each(body, func(f field) (err error) {
		switch f.num {
		case 1:
			kind = f.n
		case 3:
			tiles, err = f.numbers(tiles)
		case 4:
			devices, err = f.numbers(devices)
		case 5:
			var part string
			part, err = protoSharding(f.body, depth+1)
			parts = append(parts, part)
		case 6:
			replicateLast = f.n != 0
		case 8:
			var kinds []int64
			kinds, err = f.numbers(nil)
			for _, k := range kinds {
				last = append(last, [...]string{"replicated", "maximal", "tuple", "other", "manual"}[uint64(k)%5])
			}
		case 9:
			reshape, err = f.numbers(reshape)
		case 10:
			order, err = f.numbers(order)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	switch kind {
	case 0:
		return "{replicated}", nil
	case 1:
		return fmt.Sprintf("{maximal device=%s}", joined(devices)), nil
	case 2:
		return "{" + strings.Join(parts, ", ") + "}", nil
	case 4:
		return "{manual}", nil
	}
	text := "{devices=[" + joined(tiles) + "]"
	if len(reshape) > 0 {
		text += "<=[" + joined(reshape) + "]"
		if len(order) > 1 {
			text += "T(" + joined(order) + ")"
		}
	} else {
		text += joined(devices)
	}
	if replicateLast {
		text += " last_tile_dim_replicate"
	}
	if len(last) > 0 {
		text += " last_tile_dims={" + strings.Join(last, ", ") + "}"
	}
	return text + "}", nil
}

func joined(list []int64) string {
	parts := make([]string, len(list))
	for i, n := range list {
		parts[i] = strconv.FormatInt(n, 10)
	}
	return strings.Join(parts, ",")
}
