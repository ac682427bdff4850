package hlo

import (
	"fmt"
	"strconv"
	"strings"
)

// frames are the tables of a module that say where instructions come from; all numbers begin with 1.
type frames struct {
	files     map[int64]string
	locations map[int64][2]int64 // file and line
	frames    map[int64]int64    // location
}

// source is the file and line of a frame.
func (f *frames) source(id int64) (string, int64) {
	at, ok := f.locations[f.frames[id]]
	if !ok {
		return "", 0
	}
	return f.files[at[0]], at[1]
}

// attribute reads an attribute of the module.
func (p *parser) attribute(key, text string) error {
	s := &scanner{data: []byte(text)}
	var err error
	switch key {
	case "is_scheduled":
		p.m.Scheduled = text == "true"
	case "num_partitions":
		p.m.Partitions, err = s.number()
	case "replica_count":
		p.m.Replicas, err = s.number()
	case "input_output_alias":
		p.m.Aliases, err = s.aliases()
	case "buffer_donor":
		p.m.Donors, err = s.donors()
	}
	return err
}

// list reads {item, item}.
func (s *scanner) list(item func() error) error {
	if err := s.want("{"); err != nil {
		return err
	}
	for first := true; !s.accept("}"); first = false {
		if !first {
			if err := s.want(","); err != nil {
				return err
			}
		}
		if err := item(); err != nil {
			return err
		}
	}
	return nil
}

// aliases reads { {0}: (0, {}, may-alias), {1}: (3, {1}, must-alias) }.
func (s *scanner) aliases() (out []Alias, err error) {
	err = s.list(func() error {
		var a Alias
		var err error
		if a.Output, err = s.index(); err != nil {
			return err
		}
		if err := s.want(":"); err != nil {
			return err
		}
		a.Parameter, a.Index, err = s.operandIndex()
		out = append(out, a)
		return err
	})
	return out, err
}

// donors reads { (0, {}), (1, {2}) }.
func (s *scanner) donors() (out []Donor, err error) {
	err = s.list(func() error {
		number, index, err := s.operandIndex()
		out = append(out, Donor{number, index})
		return err
	})
	return out, err
}

// operandIndex reads (3, {1}, may-alias) or (3, {1}).
func (s *scanner) operandIndex() (n int64, index []int64, err error) {
	if err := s.want("("); err != nil {
		return 0, nil, err
	}
	if n, err = s.number(); err != nil {
		return 0, nil, err
	}
	if err := s.want(","); err != nil {
		return 0, nil, err
	}
	if index, err = s.index(); err != nil {
		return 0, nil, err
	}
	if s.accept(",") {
		if _, err := s.name(); err != nil {
			return 0, nil, err
		}
	}
	return n, index, s.want(")")
}

// index reads {1, 0}.
func (s *scanner) index() (out []int64, err error) {
	err = s.list(func() error {
		n, err := s.number()
		out = append(out, n)
		return err
	})
	return out, err
}

// table reads a table of places in the source, if one is next.
func (p *parser) table() (bool, error) {
	title := p.word()
	switch title {
	case "FileNames", "FunctionNames", "FileLocations", "StackFrames":
	default:
		return false, nil
	}
	if _, err := p.name(); err != nil {
		return true, err
	}
	for c := p.peek(); '0' <= c && c <= '9'; c = p.peek() {
		id, err := p.number()
		if err != nil {
			return true, err
		}
		switch title {
		case "FileNames":
			if p.frames.files[id], err = p.quoted(); err != nil {
				return true, err
			}
			continue
		case "FileLocations":
			row := fields(p.line())
			p.frames.locations[id] = [2]int64{row["file_name_id"], row["line"]}
		case "StackFrames":
			p.frames.frames[id] = fields(p.line())["file_location_id"]
		default:
			p.line()
		}
	}
	return true, nil
}

// fields reads {a=1 b=2}; fields that are no numbers are left out.
func fields(text string) map[string]int64 {
	out := map[string]int64{}
	for word := range strings.FieldsSeq(strings.Trim(text, " \t\r{}")) {
		if key, value, ok := strings.Cut(word, "="); ok {
			if n, err := strconv.ParseInt(value, 10, 64); err == nil {
				out[key] = n
			}
		}
	}
	return out
}

// attributes reads ", key=value" as often as it comes.
func (p *parser) attributes(use func(key, text string) error) error {
	for p.accept(",") {
		key, err := p.name()
		if err != nil {
			return err
		}
		if err := p.want("="); err != nil {
			return err
		}
		text, err := p.value()
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		if err := use(key, text); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}
