package safetensors

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"
)

// declared is a tensor as a header declares it.
type declared struct {
	Entry
	begin, end int64 // behind the header; 0 <= begin <= end
}

// maxRank bounds the dims of a tensor, and so the memory that a few bytes of a header demand.
const maxRank = 1 << 10

// parseHeader reads a header's JSON. Duplicates and unknown fields are errors, for example a second
// tensor of the same name.
func parseHeader(text []byte) (list []declared, metadata map[string]string, err error) {
	if !utf8.Valid(text) {
		return nil, nil, errors.New("it is not UTF-8")
	}
	if len(text) == 0 || text[0] != '{' {
		return nil, nil, fmt.Errorf("begins with %.20q; wanted {", text)
	}
	p := &parser{d: json.NewDecoder(bytes.NewReader(text))}
	p.d.UseNumber()
	names := map[string]bool{}
	p.object("the header", func(name string) {
		if names[name] {
			p.fail("%q stands there twice", name)
		}
		names[name] = true
		if name == metadataKey {
			metadata = map[string]string{}
			p.object(metadataKey, func(key string) {
				if _, twice := metadata[key]; twice {
					p.fail("%s: %q stands there twice", metadataKey, key)
				}
				metadata[key] = p.text(metadataKey + ": " + key)
			})
			return
		}
		list = append(list, p.tensor(name))
	})
	if p.err != nil {
		return nil, nil, p.err
	}
	if _, err := p.d.Token(); err != io.EOF {
		return nil, nil, fmt.Errorf("something follows its JSON object at byte %d; only spaces may", p.d.InputOffset())
	}
	return list, metadata, nil
}

// parser reads JSON token by token. After an error its methods return at once.
type parser struct {
	d   *json.Decoder
	err error
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
}

// next returns the next token, nil after an error.
func (p *parser) next() json.Token {
	if p.err != nil {
		return nil
	}
	token, err := p.d.Token()
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		p.fail("byte %d: %w", p.d.InputOffset(), err)
		return nil
	}
	return token
}

// want reads a token that must be there.
func (p *parser) want(what string, delim json.Delim) {
	if token := p.next(); p.err == nil && token != delim {
		p.fail("%s is %s; wanted %v", what, describe(token), delim)
	}
}

// object reads an object; member is called for each name and reads its value.
func (p *parser) object(what string, member func(name string)) {
	p.want(what, '{')
	for p.err == nil && p.d.More() {
		if name, ok := p.next().(string); ok {
			member(name)
		}
	}
	p.next()
}

// list reads a list; element reads one.
func (p *parser) list(what string, element func()) {
	p.want(what, '[')
	for p.err == nil && p.d.More() {
		element()
	}
	p.next()
}

// text reads a string.
func (p *parser) text(what string) string {
	token := p.next()
	s, ok := token.(string)
	if !ok && p.err == nil {
		p.fail("%q is %v; wanted a string", what, describe(token))
	}
	return s
}

// number reads a number from 0 to 2^63-1.
func (p *parser) number(what string) int64 {
	token := p.next()
	n, _ := token.(json.Number)
	v, err := strconv.ParseInt(n.String(), 10, 64)
	if p.err == nil && (err != nil || v < 0) {
		p.fail("%s has %v; wanted a whole number from 0 to 2^63-1", what, describe(token))
	}
	return v
}

// describe returns a token as a message shows it.
func describe(token json.Token) string {
	switch v := token.(type) {
	case json.Delim:
		return v.String()
	case nil:
		return "null"
	}
	return fmt.Sprintf("%.40q", fmt.Sprint(token))
}

// tensor reads a tensor's declaration.
func (p *parser) tensor(name string) declared {
	t := declared{Entry: Entry{Name: name, Shape: []int{}}}
	offsets := make([]int64, 0, 2)
	var dtype, shape, place bool
	p.object(fmt.Sprintf("tensor %q", name), func(key string) {
		what := fmt.Sprintf("tensor %q: %s", name, key)
		seen := map[string]*bool{"dtype": &dtype, "shape": &shape, "data_offsets": &place}[key]
		switch {
		case seen == nil:
			p.fail("%s is no field of a tensor; wanted dtype, shape and data_offsets", what)
			return
		case *seen:
			p.fail("%s stands there twice", what)
			return
		}
		*seen = true
		switch key {
		case "dtype":
			p.dtype(&t.Entry)
		case "shape":
			p.list(what, func() {
				if t.Shape = append(t.Shape, int(p.number(what))); len(t.Shape) > maxRank {
					p.fail("%s has more than %d dims", what, maxRank)
				}
			})
		default:
			p.list(what, func() {
				if offsets = append(offsets, p.number(what)); len(offsets) > 2 {
					p.fail("%s has more than two numbers", what)
				}
			})
		}
	})
	switch {
	case p.err != nil:
	case !dtype || !shape || !place:
		p.fail("tensor %q lacks dtype, shape or data_offsets", name)
	case len(offsets) != 2 || offsets[0] > offsets[1]:
		p.fail("tensor %q: data_offsets are %v; wanted where it begins and where it ends", name, offsets)
	default:
		t.begin, t.end = offsets[0], offsets[1]
	}
	return t
}

// dtype reads a type's name.
func (p *parser) dtype(e *Entry) {
	text := p.text("dtype")
	for i := range dtypes {
		if dtypes[i].name == text {
			e.DType = dtypes[i].dtype
			return
		}
	}
	p.fail("tensor %q has dtype %.20q; memopt reads %s", e.Name, text, dtypeNames())
}
