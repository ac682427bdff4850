package data

import (
	"strings"
	"sync"

	"memopt/graph"
)

// exampleText names the built-in data: a generated text, whose tokens are its bytes.
const exampleText = "example:text"

// exampleBytes is the least length of the text.
const exampleBytes = 256 << 10

// exampleTokens returns the built-in text.
func exampleTokens() tokenFile {
	text := exampleOnce()
	f := &file{path: exampleText, data: text}
	return tokenFile{file: f, dtype: graph.Uint8, data: text, count: int64(len(text))}
}

var exampleOnce = sync.OnceValue(func() []byte { return writeText(exampleBytes) })

// The words of the text. A sentence tells who does something, where, and at times why.
var (
	someone = strings.Fields("miller baker sailor weaver farmer painter teacher smith child doctor clerk")
	quality = strings.Fields("old young quiet clever tired happy careful hungry proud small")
	action  = strings.Fields("finds keeps carries counts mends paints sells washes borrows hides draws")
	thing   = strings.Fields("basket lantern letter kettle ladder mirror wheel window clock boat")
	site    = strings.Fields("river market hill station orchard harbour kitchen school tower meadow")
	where   = strings.Fields("near behind beside above below inside")
	moment  = strings.Fields("today often sometimes again early tonight")
)

// writeText writes sentences of a small grammar, the same ones every time, until there are n bytes.
// Letters, blanks, commas and full stops occur, and a line per paragraph.
func writeText(n int) []byte {
	out := make([]byte, 0, n+256)
	state := uint64(1)
	pick := func(list []string) string {
		state = mix(state)
		return list[state%uint64(len(list))]
	}
	chance := func(of uint64) bool {
		state = mix(state)
		return state%of == 0
	}
	person := func() string {
		if chance(2) {
			return "the " + pick(quality) + " " + pick(someone)
		}
		return "the " + pick(someone)
	}
	for len(out) < n {
		s := person() + " " + pick(action) + " the " + pick(thing) + " " + pick(where) + " the " + pick(site)
		switch {
		case chance(3):
			s += " " + pick(moment)
		case chance(3):
			s += ", because " + person() + " " + pick(action) + " the " + pick(thing)
		}
		if out = append(append(out, s...), '.'); chance(6) {
			out = append(out, '\n')
		} else {
			out = append(out, ' ')
		}
	}
	return out
}
