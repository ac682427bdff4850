package hlo

import (
	"bytes"
	"fmt"
)

// ReadText reads a module from its text. The error says the line.
func ReadText(data []byte) (*Module, error) {
	p := &parser{scanner: scanner{data: data}, m: &Module{Partitions: 1, Replicas: 1, Entry: -1},
		computations: map[string]int32{}}
	err := p.module()
	if err == nil {
		if err = p.link(); err == nil {
			err = p.m.verify()
		}
		if err != nil {
			return nil, err
		}
		return p.m, nil
	}
	return nil, fmt.Errorf("line %d: %w", 1+bytes.Count(data[:min(p.pos, len(data))], []byte{'\n'}), err)
}

// parser reads a module.
type parser struct {
	scanner
	m            *Module
	computations map[string]int32
	calls        []call
	frames       frames
	entry        bool // a computation says ENTRY
}

// call is a computation that an instruction names.
type call struct {
	from, at int32
	place    int
	name     string
}

func (p *parser) module() error {
	if err := p.want("HloModule"); err != nil {
		return fmt.Errorf("is no HLO text: %w", err)
	}
	var err error
	if p.m.Name, err = p.name(); err != nil {
		return err
	}
	if err := p.attributes(p.attribute); err != nil {
		return err
	}
	p.frames = frames{map[int64]string{}, map[int64][2]int64{}, map[int64]int64{}}
	for p.peek() != 0 {
		if p.word() == "HloModule" {
			return fmt.Errorf("a second module begins; wanted one module in a file")
		}
		if ok, err := p.table(); ok || err != nil {
			if err != nil {
				return err
			}
			continue
		}
		if err := p.computation(); err != nil {
			return err
		}
	}
	if !p.entry {
		p.m.Entry = int32(len(p.m.Computations)) - 1 // as XLA's parser has it
	}
	return nil
}

// computation reads [ENTRY] %name (parameters) -> result { instructions }.
func (p *parser) computation() error {
	entry := p.word() == "ENTRY"
	if entry {
		p.accept("ENTRY")
		if p.entry {
			return fmt.Errorf("there are two ENTRY computations")
		}
		p.entry = true
	}
	name, err := p.name()
	if err != nil {
		return err
	}
	if _, ok := p.computations[name]; ok {
		return fmt.Errorf("there are two computations %q", name)
	}
	if p.peek() == '(' {
		if _, err := p.shapeList(); err != nil {
			return err
		}
		if err := p.want("->"); err != nil {
			return err
		}
		if _, err := p.shape(0); err != nil {
			return err
		}
	}
	if err := p.attributes(func(string, string) error { return nil }); err != nil {
		return err
	}
	if err := p.want("{"); err != nil {
		return err
	}
	c := &Computation{Name: name, Root: -1}
	b := &body{parser: p, c: c, at: map[string]int32{}}
	for !p.accept("}") {
		if err := b.instruction(); err != nil {
			return fmt.Errorf("computation %q: %w", name, err)
		}
	}
	if c.Root < 0 {
		c.Root = int32(len(c.Instructions) - 1)
	}
	place := int32(len(p.m.Computations))
	p.computations[name] = place
	p.m.Computations = append(p.m.Computations, c)
	if entry {
		p.m.Entry = place
	}
	return p.attributes(func(string, string) error { return nil })
}

// shapeList skips (name: shape, ...).
func (p *parser) shapeList() (string, error) {
	start := p.pos
	depth := 0
	for p.pos < len(p.data) {
		c := p.data[p.pos]
		p.pos++
		switch c {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return string(p.data[start:p.pos]), nil
			}
		}
	}
	return "", fmt.Errorf("a bracket is not closed: wanted ')'")
}

// link finds the computations that instructions name.
func (p *parser) link() error {
	for _, k := range p.calls {
		to, ok := p.computations[k.name]
		c := p.m.Computations[k.from]
		if !ok {
			return fmt.Errorf("computation %q: instruction %q calls %q, which is not there", c.Name,
				c.Instructions[k.at].Name, k.name)
		}
		c.Instructions[k.at].Called[k.place] = to
	}
	return nil
}
