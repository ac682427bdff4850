package torchsnapshot

import "strings"

// hidden are words of frames that the page leaves out as start-up code, wherever they stand in the
// name of a function or of a file (frameFilter in MemoryViz.js).
var hidden = []string{"unwind::unwind", "CapturedTraceback::gather", "gather_with_cpp", "_start", "__libc_start_main",
	"PyEval_", "PyObject_", "PyFunction_", "core/boxing", "/Register", "/Redispatch", "pythonrun.c", "Modules/main.c",
	"Objects/call.c", "Objects/methodobject.c", "pycore_ceval.h", "ceval.c", "cpython/abstract.h"}

// joiner is a character without width that forbids a line break: U+2060.
const joiner = "\u2060"

// visible returns a text that the page shows: a joiner splits the words that make it hide frames.
func visible(text string) string {
	for _, w := range hidden {
		if strings.Contains(text, w) {
			text = strings.ReplaceAll(text, w, w[:1]+joiner+w[1:])
		}
	}
	return text
}

// frame writes a line of a stack, which the page shows as file:line:name.
func (s *snapshot) frame(file string, line int64, name string) {
	s.op(opEmptyDict)
	s.op(opMark)
	s.word(&s.words.filename)
	s.text(visible(file))
	s.word(&s.words.line)
	s.int(line)
	s.word(&s.words.name)
	s.text(visible(name))
	s.op(opSetItems)
}

// stepFrames are the numbers of a step's frames, each plus 1; 0: not written yet.
type stepFrames struct{ maker, reader, layer uint32 }

// once writes a frame, or a reference to an earlier one.
func (s *snapshot) once(object *uint32, write func()) {
	if *object == 0 {
		write()
		*object = s.keep() + 1
		return
	}
	s.again(*object - 1)
}
