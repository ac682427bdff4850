package hlo

import "bytes"

// MaxBytes is the largest file that is read: modules of a million instructions stay below it.
const MaxBytes = 1 << 30

// HeadBytes is how much of a file [IsModule] looks at, so that comments may be in front of the text.
const HeadBytes = 4096

// IsModule reports whether a file that begins so is a module, as text or as a protocol buffer. No ONNX model begins as
// one: its first field is a number, or has another tag.
func IsModule(head []byte) bool { return isText(head) || isProto(head) }

// isText reports whether text begins with HloModule, behind blanks and comments.
func isText(head []byte) bool {
	s := &scanner{data: head}
	s.space()
	return bytes.HasPrefix(head[s.pos:], []byte("HloModule")) && s.pos+len("HloModule") < len(head) &&
		!isName(head[s.pos+len("HloModule")])
}

// Read reads a module from text or from a protocol buffer, whichever the data are.
func Read(data []byte) (*Module, error) {
	if isProto(data[:min(len(data), HeadBytes)]) {
		return ReadProto(data)
	}
	return ReadText(data)
}
