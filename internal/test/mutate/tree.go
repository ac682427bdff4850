package mutate

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// message is a decoded message: its fields in the order of the file.
type message struct {
	typ    *messageType
	fields []*field
}

// field is one occurrence of a field. The wire type selects one of msg, data and num; msg counts
// before data.
type field struct {
	info *fieldInfo // nil if the schema lacks the number
	id   protowire.Number
	wire protowire.Type
	num  uint64
	data []byte
	msg  *message
}

// deepest is how deep messages are decoded; anything deeper stays bytes.
const deepest = 60

// decode reads a message as far as it is well-formed; the rest is one field without a number.
func decode(typ *messageType, data []byte, depth int) *message {
	m := &message{typ: typ}
	for len(data) > 0 {
		f, n := decodeField(typ, data, depth)
		if n < 0 {
			m.fields = append(m.fields, &field{data: data})
			break
		}
		data = data[n:]
		m.fields = append(m.fields, f...)
	}
	return m
}

// decodeField reads a field; packed numbers become a field each.
func decodeField(typ *messageType, data []byte, depth int) ([]*field, int) {
	num, wire, n := protowire.ConsumeTag(data)
	if n < 0 {
		return nil, n
	}
	size := protowire.ConsumeFieldValue(num, wire, data[n:])
	if size < 0 {
		return nil, size
	}
	f := &field{info: typ.fields[num], id: num, wire: wire}
	value := data[n : n+size]
	switch wire {
	case protowire.VarintType:
		f.num, _ = protowire.ConsumeVarint(value)
	case protowire.Fixed32Type:
		v, _ := protowire.ConsumeFixed32(value)
		f.num = uint64(v)
	case protowire.Fixed64Type:
		f.num, _ = protowire.ConsumeFixed64(value)
	case protowire.BytesType:
		f.data, _ = protowire.ConsumeBytes(value)
		if f.info != nil && f.info.of != nil && depth < deepest {
			f.msg, f.data = decode(f.info.of, f.data, depth+1), nil
		}
		if list := unpacked(f); list != nil {
			return list, n + size
		}
	default: // a group, which ONNX does not use
		f.data = value
	}
	return []*field{f}, n + size
}

// packedMost is up to how many bytes packed numbers become fields of their own; longer lists are
// weights, and stay bytes.
const packedMost = 256

// unpacked returns packed numbers one by one, nil if the field has no numbers.
func unpacked(f *field) []*field {
	if f.info == nil || f.info.wire != protowire.VarintType || len(f.data) > packedMost {
		return nil
	}
	var list []*field
	for data := f.data; len(data) > 0; {
		v, n := protowire.ConsumeVarint(data)
		if n < 0 {
			return nil
		}
		data = data[n:]
		list = append(list, &field{info: f.info, id: f.id, wire: protowire.VarintType, num: v})
	}
	return list
}

// encode writes a message.
func (m *message) encode() []byte {
	var out []byte
	for _, f := range m.fields {
		out = f.append(out)
	}
	return out
}

func (f *field) append(out []byte) []byte {
	if f.id == 0 {
		return append(out, f.data...)
	}
	out = protowire.AppendTag(out, f.id, f.wire)
	switch f.wire {
	case protowire.VarintType:
		return protowire.AppendVarint(out, f.num)
	case protowire.Fixed32Type:
		return protowire.AppendFixed32(out, uint32(f.num))
	case protowire.Fixed64Type:
		return protowire.AppendFixed64(out, f.num)
	case protowire.BytesType:
		data := f.data
		if f.msg != nil {
			data = f.msg.encode()
		}
		return protowire.AppendBytes(out, data)
	}
	return append(out, f.data...)
}

func (m *message) clone() *message {
	c := &message{typ: m.typ, fields: make([]*field, len(m.fields))}
	for i, f := range m.fields {
		c.fields[i] = f.clone()
	}
	return c
}

func (f *field) clone() *field {
	c := *f
	if c.data = slices.Clone(f.data); f.msg != nil {
		c.msg = f.msg.clone()
	}
	return &c
}

// size is roughly how many bytes the message takes.
func (m *message) size() int {
	n := 0
	for _, f := range m.fields {
		n += 4 + len(f.data)
		if f.msg != nil {
			n += f.msg.size()
		}
	}
	return n
}

// get returns the first occurrence of a field by its name without the message's, or nil.
func (m *message) get(name string) *field {
	key := m.typ.name + "." + name
	for _, f := range m.fields {
		if f.is(key) {
			return f
		}
	}
	return nil
}

// is reports whether this is a field of the schema, and holds a message if it should.
func (f *field) is(key string) bool {
	return f.info != nil && f.info.key == key && (f.info.of == nil || f.msg != nil)
}

// text returns the bytes of a field, "" if it is missing.
func (m *message) text(name string) string {
	if f := m.get(name); f != nil {
		return string(f.data)
	}
	return ""
}

// texts lists the bytes of a repeated field.
func (m *message) texts(name string) []string {
	var list []string
	for _, f := range m.all(name) {
		list = append(list, string(f.data))
	}
	return list
}

// all lists the occurrences of a field.
func (m *message) all(name string) []*field {
	key := m.typ.name + "." + name
	var list []*field
	for _, f := range m.fields {
		if f.is(key) {
			list = append(list, f)
		}
	}
	return list
}

// add appends an empty field and returns it.
func (m *message) add(name string) *field {
	info := fields[m.typ.name+"."+name]
	f := &field{info: info, id: info.num, wire: info.wire}
	if info.of != nil {
		f.msg = &message{typ: info.of}
	}
	m.fields = append(m.fields, f)
	return f
}

// addText appends a field that holds text.
func (m *message) addText(name, text string) { m.add(name).data = []byte(text) }

// addNum appends a field that holds a number.
func (m *message) addNum(name string, n int64) { m.add(name).num = uint64(n) }

// only returns the first occurrence of a field, or a new one.
func (m *message) only(name string) *field {
	if f := m.get(name); f != nil {
		return f
	}
	return m.add(name)
}

// drop removes all occurrences of a field.
func (m *message) drop(name string) {
	key := m.typ.name + "." + name
	m.fields = slices.DeleteFunc(m.fields, func(f *field) bool { return f.info != nil && f.info.key == key })
}
