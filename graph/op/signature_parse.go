package op

import (
	"embed"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"memopt/graph"
)

//go:embed signatures/*.txt
var signatureFiles embed.FS

// typeNames are sets of element types by the names that signature files use.
var typeNames = map[string]string{
	"bytes":    "int8 uint8",
	"index":    "int32 int64",
	"integers": "bytes int16 uint16 index uint32 uint64",
	"ieee":     "float16 float double",
	"floats":   "ieee bfloat16",
	"float8":   "float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz",
	"codes":    "bytes int16 uint16 float8 int4 uint4 float4e2m1 int2 uint2", // of quantized numbers
	"wide":     "index uint32 uint64 ieee",
	"wideb":    "wide bfloat16",
	"numbers":  "integers ieee",
	"numbersb": "numbers bfloat16",
	"plain":    "bool numbers complex64 complex128 string",
	"plainb":   "plain bfloat16",
	"any":      "plainb codes float8e8m0",
}

// signatures are the rows' signatures, oldest first, by kind.
var signatures = sync.OnceValue(func() [][]signature {
	byKind := make([][]signature, NumKinds)
	sets := typeSets()
	for _, family := range []struct {
		file string
		has  func(*Info) bool
	}{
		{"onnx", func(i *Info) bool { return i.Dialect == "" && i.Domain == "" }},
		{"microsoft", func(i *Info) bool {
			return i.Dialect == "" && i.Domain != "" && i.Domain != DomainMemopt && !i.AnyName
		}},
		{"xla", func(i *Info) bool { return i.AnyName }},
		{"memopt", func(i *Info) bool { return i.Domain == DomainMemopt }},
		{"deeploy", func(i *Info) bool { return i.Dialect == deeploy }},
	} {
		kinds := map[string]graph.Kind{}
		for k := Unknown + 1; k < NumKinds; k++ {
			if family.has(&table[k]) {
				kinds[table[k].Name] = k
			}
		}
		text, err := signatureFiles.ReadFile("signatures/" + family.file + ".txt")
		if err != nil {
			panic(err)
		}
		if err := parseSignatures(string(text), sets, kinds, byKind); err != nil {
			// A fault of the program, found by the first test.
			panic(fmt.Sprintf("op: signatures/%s.txt: %v", family.file, err))
		}
	}
	return byKind
})

// typeSets are the sets of element types that signature files may name, single types included.
var typeSets = sync.OnceValue(func() map[string]uint32 {
	sets := make(map[string]uint32, len(typeNames)+32)
	for d := graph.DType(1); d.Valid(); d++ {
		sets[d.String()] = 1 << uint(d)
	}
	var resolve func(name string) uint32
	resolve = func(name string) uint32 {
		if _, done := sets[name]; !done {
			var set uint32
			for _, member := range strings.Fields(typeNames[name]) {
				set |= resolve(member)
			}
			sets[name] = set
		}
		return sets[name]
	}
	for name := range typeNames {
		resolve(name)
	}
	return sets
})

// parseSignatures reads a file in the form that signatures/onnx.txt explains.
func parseSignatures(text string, sets map[string]uint32, kinds map[string]graph.Kind, byKind [][]signature) error {
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		head, body, _ := strings.Cut(line, ":")
		name, version, _ := strings.Cut(head, " ")
		kind, known := kinds[name]
		since, err := strconv.Atoi(version)
		if !known || err != nil {
			return fmt.Errorf("line %d: no operator and version: %q", number, head)
		}
		sig, err := parseSignature(body, sets)
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		if list := byKind[kind]; len(list) > 0 && list[len(list)-1].since >= since {
			return fmt.Errorf("line %d: version %d is not above the one before", number, since)
		}
		sig.since = since
		byKind[kind] = append(byKind[kind], sig)
	}
	return nil
}

// parseSignature reads the text behind the version: operands, types of variables, attributes.
func parseSignature(text string, sets map[string]uint32) (sig signature, err error) {
	operands, rest, _ := strings.Cut(text, "|")
	variables := map[string]typeSet{}
	for _, word := range strings.Fields(strings.ReplaceAll(rest, "|", " ")) {
		if name, types, is := strings.Cut(word, "="); is {
			if variables[name], err = parseTypes(types, sets); err != nil {
				return sig, err
			}
			continue
		}
		name, kind, _ := strings.Cut(word, ":")
		kind, required := strings.CutSuffix(kind, "!")
		if attrKinds[kind] == "" {
			return sig, fmt.Errorf("no kind of attribute: %q", word)
		}
		sig.attrs = append(sig.attrs, AttrSpec{name, kind, required})
	}
	in, out, _ := strings.Cut(operands, "->")
	if sig.inputs, err = parseOperands(in, variables, sets); err != nil {
		return sig, err
	}
	sig.outputs, err = parseOperands(out, variables, sets)
	return sig, err
}

func parseOperands(text string, variables map[string]typeSet, sets map[string]uint32) (list []operand, err error) {
	for _, word := range strings.Fields(text) {
		var o operand
		word, o.mixed = strings.CutPrefix(word, "~")
		if head, is := strings.CutSuffix(word, "..."); is {
			word, o.variadic, o.least = head, true, 1
		} else if head, is := strings.CutSuffix(word, "*"); is {
			word, o.variadic = head, true
		}
		word, o.optional = strings.CutSuffix(word, "?")
		if types, is := variables[word]; is {
			o.variable, o.types = word, types
		} else if o.types, err = parseTypes(word, sets); err != nil {
			return nil, err
		}
		list = append(list, o)
	}
	return list, nil
}

// parseTypes reads types with commas between them.
func parseTypes(text string, sets map[string]uint32) (s typeSet, err error) {
	for _, word := range strings.Split(text, ",") {
		to := &s.tensor
		for prefix, form := range map[string]*uint32{
			"seq:": &s.sequence, "opt:": &s.optional, "optseq:": &s.optionalSequence,
		} {
			if name, is := strings.CutPrefix(word, prefix); is {
				word, to = name, form
			}
		}
		set, known := sets[word]
		if !known {
			return s, fmt.Errorf("no type: %q", word)
		}
		*to |= set
	}
	return s, nil
}
