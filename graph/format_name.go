package graph

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Words that mean something where a name could stand too.
const (
	wordSequence  = "seq"
	wordMap       = "map"
	wordOptional  = "optional"
	wordSparse    = "sparse_tensor"
	wordOpaque    = "opaque"
	wordDType     = "dtype"
	wordUndefined = "undefined"
	wordRaw       = "raw"
)

// isReserved reports whether an identifier, unquoted, is not taken for a name.
func isReserved(s string) bool {
	switch s {
	case wordSequence, wordMap, wordOptional, wordSparse, wordOpaque, wordDType, wordUndefined:
		return true
	}
	if _, ok := ParseDType(s); ok {
		return true
	}
	return isFloatWord(s)
}

// isFloatWord reports whether an identifier is a number: nan or infinity.
func isFloatWord(s string) bool {
	return strings.EqualFold(s, "inf") || strings.EqualFold(s, "infinity") || strings.EqualFold(s, "nan")
}

// isIdentByte reports whether c may stand in an identifier.
func isIdentByte(c byte, first bool) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || !first && '0' <= c && c <= '9'
}

// isIdentifier reports whether s is an identifier as C has them.
func isIdentifier(s string) bool {
	for i := range len(s) {
		if !isIdentByte(s[i], i == 0) {
			return false
		}
	}
	return s != ""
}

// isDotted reports whether s is identifiers with dots between them.
func isDotted(s string) bool {
	for part := range strings.SplitSeq(s, ".") {
		if !isIdentifier(part) || isReserved(part) {
			return false
		}
	}
	return true
}

// appendName prints a name, in quotes where it needs them.
func appendName(buf []byte, s string) []byte {
	if isIdentifier(s) && !isReserved(s) {
		return append(buf, s...)
	}
	return appendQuoted(buf, s)
}

// appendQuoted prints any bytes as a quoted string.
func appendQuoted(buf []byte, s string) []byte {
	const hex = "0123456789abcdef"
	buf = append(buf, '"')
	for i := 0; i < len(s); {
		c := s[i]
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case c == '"' || c == '\\':
			buf = append(buf, '\\', c)
		case c == '\n':
			buf = append(buf, `\n`...)
		case c == '\r':
			buf = append(buf, `\r`...)
		case c == '\t':
			buf = append(buf, `\t`...)
		case unicode.IsPrint(r) && !(r == utf8.RuneError && size == 1):
			buf = append(buf, s[i:i+size]...)
		default:
			for _, b := range []byte(s[i : i+size]) {
				buf = append(buf, '\\', 'x', hex[b>>4], hex[b&15])
			}
		}
		i += size
	}
	return append(buf, '"')
}
