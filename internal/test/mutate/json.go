package mutate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// tree is a JSON value: an object or a list with children, or a leaf as it is written.
type tree struct {
	open     byte // '{', '[' or 0
	leaf     string
	keys     []string // of an object, as written
	children []*tree
}

// JSON makes a mutant of a JSON document.
func JSON(data, genome []byte) ([]byte, []string) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	root, err := parseJSON(dec)
	var did []string
	for _, rng := range genes(genome) {
		if err != nil || one(rng, 20) { // text that is not JSON is treated as bytes
			if err == nil {
				data, err = root.append(nil), fmt.Errorf("from here on bytes")
			}
			var what string
			data, what = flipBytes(rng, data)
			did = append(did, what)
			continue
		}
		did = append(did, root.mutate(rng))
	}
	if err != nil {
		return data, did
	}
	return root.append(nil), did
}

func parseJSON(dec *json.Decoder) (*tree, error) {
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	t := &tree{}
	delim, ok := tok.(json.Delim)
	if !ok {
		leaf, err := json.Marshal(tok)
		t.leaf = string(leaf)
		return t, err
	}
	t.open = byte(delim)
	for dec.More() {
		if t.open == '{' {
			key, err := dec.Token()
			if err != nil {
				return nil, err
			}
			text, _ := json.Marshal(key)
			t.keys = append(t.keys, string(text))
		}
		child, err := parseJSON(dec)
		if err != nil {
			return nil, err
		}
		t.children = append(t.children, child)
	}
	_, err = dec.Token()
	return t, err
}

func (t *tree) append(out []byte) []byte {
	if t.open == 0 {
		return append(out, t.leaf...)
	}
	out = append(out, t.open)
	for i, c := range t.children {
		if i > 0 {
			out = append(out, ',')
		}
		if t.open == '{' {
			out = append(append(out, t.keys[i]...), ':')
		}
		out = c.append(out)
	}
	return append(out, t.open+2) // in ASCII, a closing bracket is two after the opening one
}

func (t *tree) clone() *tree {
	c := *t
	c.keys = slices.Clone(t.keys)
	c.children = make([]*tree, len(t.children))
	for i, child := range t.children {
		c.children[i] = child.clone()
	}
	return &c
}

func (t *tree) walk(visit func(*tree)) {
	visit(t)
	for _, c := range t.children {
		c.walk(visit)
	}
}

// leaves are JSON values, some of them invalid.
var leaves = []string{"null", "true", "0", "-1", "1", "2", "0.5", "-0", "1e400", "9223372036854775807",
	"9223372036854775808", "-9223372036854775808", "4294967296", "1e18", "1e-400", "NaN", "[]", "{}", `""`,
	`"x"`, `"\u0000"`, `"\ud800"`, `"*"`, `"1GiB"`}

// mutate changes one place of the tree and says how.
func (t *tree) mutate(rng *rand.Rand) string {
	var all, inner []*tree
	t.walk(func(x *tree) {
		all = append(all, x)
		if len(x.children) > 0 {
			inner = append(inner, x)
		}
	})
	if len(inner) == 0 || one(rng, 2) {
		x := pick(rng, all)
		old := x.append(nil)
		*x = *otherValue(rng, x, all)
		return fmt.Sprintf("%.60s in place of %.60s", x.append(nil), old)
	}
	x := pick(rng, inner)
	i := rng.IntN(len(x.children))
	switch rng.IntN(6) {
	case 0, 1:
		x.children = slices.Delete(x.children, i, i+1)
		if x.open == '{' {
			x.keys = slices.Delete(x.keys, i, i+1)
		}
		return fmt.Sprintf("element %d of %d left out", i, len(x.children)+1)
	case 2, 3:
		x.children = slices.Insert(x.children, i, x.children[i].clone())
		if x.open == '{' {
			x.keys = slices.Insert(x.keys, i, x.keys[i])
		}
		return fmt.Sprintf("element %d doubled", i)
	case 4:
		if x.open == '{' {
			text, _ := json.Marshal(word(rng, strings.Trim(x.keys[i], `"`)))
			x.keys[i] = string(text)
			return fmt.Sprintf("a key is %.60s", text)
		}
	}
	k := rng.IntN(len(x.children))
	x.children[i], x.children[k] = x.children[k], x.children[i]
	return fmt.Sprintf("elements %d and %d swapped", i, k)
}

// otherValue returns a value to put in place of another.
func otherValue(rng *rand.Rand, x *tree, all []*tree) *tree {
	switch rng.IntN(8) {
	case 0:
		return pick(rng, all).clone()
	case 1:
		depth := 1
		if one(rng, 8) {
			depth = 1 + rng.IntN(20_000)
		}
		out := x.clone()
		for range depth {
			out = &tree{open: '[', children: []*tree{out}}
		}
		return out
	case 2, 3, 4:
		if n, err := strconv.ParseInt(x.leaf, 10, 64); err == nil {
			return &tree{leaf: strconv.FormatInt(whole(rng, n), 10)}
		}
		if strings.HasPrefix(x.leaf, `"`) {
			text, _ := json.Marshal(word(rng, strings.Trim(x.leaf, `"`)))
			return &tree{leaf: string(text)}
		}
	}
	return &tree{leaf: pick(rng, leaves)}
}
