package configs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"unicode/utf8"

	"memopt/internal/inputfile"
	"memopt/planner"
	"memopt/recompute"
)

// maxFile is the size of the largest configuration file that is read. A plan.json of a hundred
// thousand placements stays below it.
const maxFile = 64 << 20

// Error is a fault in a configuration file or variable.
type Error struct {
	Where string // file or variable
	Err   error
}

// Error returns the place and the fault, for example "config.json: is empty".
func (e *Error) Error() string { return e.Where + ": " + e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

func faultf(where, format string, args ...any) error {
	return &Error{where, fmt.Errorf(format, args...)}
}

// readFile reads a configuration file of bounded size.
func readFile(path string) ([]byte, error) {
	data, err := inputfile.Read(path, maxFile)
	if err != nil {
		return nil, unreadable(path, err)
	}
	return data, nil
}

// unreadable words an error of package inputfile without its path, which the message has already.
func unreadable(path string, err error) error {
	return faultf(path, "cannot be read: %v", errors.Unwrap(err))
}

// LoadORT reads a configuration of ONNX Runtime's memory optimizer: a file or, if there is no file
// of that name, the entries themselves with commas between them, "Cast+Reshape+:1:-1,Gelu+:1:2", as
// ORTMODULE_MEMORY_OPT_CONFIG held them before it named a file.
func LoadORT(config string) ([]planner.ConfigEntry, error) {
	if _, err := os.Stat(config); err != nil && strings.Contains(config, idEnd) {
		entries, err := parseEntries(config)
		if err != nil {
			return nil, faultf(config, "is not a file; read as a list: %v", err)
		}
		return entries, nil
	}
	data, err := readFile(config)
	if err != nil {
		return nil, err
	}
	return ParseORT(data, config)
}

// idEnd tells a list of entries from the name of a file: cluster IDs end with a plus sign.
const idEnd = "+:"

// ParseORT reads a JSON array of strings as ONNX Runtime does. Each string holds entries separated
// by commas, each entry three pieces separated by colons: cluster ID, strategy (0 off, 1 recompute,
// 2 recompute with compromise) and count (see planner.ConfigEntry). Empty
// pieces are dropped; spaces are kept.
func ParseORT(data []byte, where string) ([]planner.ConfigEntry, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if !utf8.Valid(data) {
		return nil, faultf(where, "is not UTF-8 text; wanted a JSON array of strings such as "+
			"[\"Gelu+:1:-1\"]")
	}
	var list any
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, faultf(where, "is not JSON: %v; wanted an array of strings such as "+
			"[\"Gelu+:1:-1\"]", err)
	}
	items, ok := list.([]any)
	if !ok {
		return nil, faultf(where, "holds %s; wanted an array of strings such as [\"Gelu+:1:-1\"]", kindOf(list))
	}
	var out []planner.ConfigEntry
	for i, item := range items {
		text, ok := item.(string)
		if !ok {
			return nil, faultf(where, "element %d is %s; wanted a string such as \"Gelu+:1:-1\"", i, kindOf(item))
		}
		entries, err := parseEntries(text)
		if err != nil {
			return nil, faultf(where, "element %d, %.200q: %v", i, text, err)
		}
		out = append(out, entries...)
	}
	return out, nil
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case float64:
		return "a number"
	case string:
		return "a string"
	case []any:
		return "an array"
	}
	return "an object"
}

func parseEntries(text string) ([]planner.ConfigEntry, error) {
	var out []planner.ConfigEntry
	for _, entry := range split(text, ",") {
		pieces := split(entry, ":")
		if len(pieces) != 3 {
			return nil, fmt.Errorf("entry %q has %d pieces, wanted 3: ClusterID:Strategy:Count", entry, len(pieces))
		}
		strategy, err := parseInt(pieces[1])
		if err != nil {
			return nil, fmt.Errorf("entry %q: strategy: %v", entry, err)
		}
		if strategy < 0 || strategy > 2 {
			return nil,
				fmt.Errorf("entry %q: strategy is %d, wanted 0 (off), 1 (recompute) or 2 (recompute with compromise)",
					entry, strategy)
		}
		count, err := parseInt(pieces[2])
		if err != nil {
			return nil, fmt.Errorf("entry %q: count: %v", entry, err)
		}
		if count < -1 {
			return nil, fmt.Errorf("entry %q: count is %d, wanted -1 (all occurrences) or more", entry, count)
		}
		out = append(out,
			planner.ConfigEntry{Cluster: recompute.ClusterID(pieces[0]), Strategy: recompute.Strategy(strategy),
				Count: count})
	}
	return out, nil
}

// split is strings.Split without the empty pieces.
func split(text, sep string) []string {
	var out []string
	for piece := range strings.SplitSeq(text, sep) {
		if piece != "" {
			out = append(out, piece)
		}
	}
	return out
}

// parseInt reads an integer as ONNX Runtime's std::from_chars does: digits with an optional minus
// in front; the text behind them is ignored; a number beyond 32 bits reads as 0.
func parseInt(text string) (int, error) {
	digits := strings.TrimPrefix(text, "-")
	n, i := 0, 0
	for ; i < len(digits) && digits[i] >= '0' && digits[i] <= '9'; i++ {
		if n <= math.MaxInt32 {
			n = 10*n + int(digits[i]-'0')
		}
	}
	if i == 0 {
		return 0, fmt.Errorf("%q is not an integer", text)
	}
	if len(digits) < len(text) {
		n = -n
	}
	if n > math.MaxInt32 || n < math.MinInt32 {
		return 0, nil
	}
	return n, nil
}

// FormatORT writes a configuration file, one entry a line.
func FormatORT(entries []planner.ConfigEntry) []byte {
	var b bytes.Buffer
	b.WriteString("[\n")
	for i, e := range entries {
		text, err := json.Marshal(e.String())
		if err != nil {
			panic("configs: a string does not marshal: " + err.Error())
		}
		b.WriteString("  ")
		b.Write(text)
		if i < len(entries)-1 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
	}
	b.WriteString("]\n")
	return b.Bytes()
}
