package fileio

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxName is how many bytes a file's name may have on all common file systems.
const MaxName = 255

// Name returns the name of the file that holds a value, suffix at its end. Different values have
// different names: "/", which a name cannot hold, is %2F, a zero byte %00, and the percent sign of
// a text like such an escape %25. A name that would be longer than MaxName bytes is cut, and ends
// with a hash of the whole.
func Name(value, suffix string) string {
	name := Escape(value, "/\x00")
	if len(name)+len(suffix) <= MaxName {
		return name + suffix
	}
	hash := sha256.Sum256([]byte(value))
	end := fmt.Sprintf("%%~%x", hash[:8]) // not an escape; a name that ends so exists already
	cut := MaxName - len(suffix) - len(end)
	for cut > 0 && !utf8.RuneStart(name[cut]) {
		cut--
	}
	return name[:cut] + end + suffix
}

// Escape writes the given bytes, and the percent signs of texts like an escape, as % and two
// hexadecimal digits. Unescape is its inverse.
func Escape(text, bytes string) string {
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; strings.IndexByte(bytes, c) >= 0 || c == '%' && escape(text[i:]) {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// Unescape reads Escape's text. Percent signs without two digits behind them stand for themselves.
func Unescape(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if !escape(text[i:]) {
			b.WriteByte(text[i])
			continue
		}
		var c byte
		fmt.Sscanf(text[i+1:i+3], "%x", &c)
		b.WriteByte(c)
		i += 2
	}
	return b.String()
}

// escape reports whether a text begins with an escape.
func escape(text string) bool {
	return len(text) >= 3 && text[0] == '%' && digit(text[1]) && digit(text[2])
}

func digit(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' }
