package report

import (
	"fmt"
	"io"
)

// VersionSchema is the schema of the JSON that `memopt version -O json` prints.
const VersionSchema = "memopt.version/v1"

// Version is a build of memopt.
type Version struct {
	Version  string
	Revision string // of the sources, "" if it is not known
	Modified bool   // whether the sources had uncommitted changes
	Go       string // release of the compiler
	OS, Arch string // its platform, in Go's words
}

type versionJSON struct {
	Schema   string  `json:"schema"`
	Version  string  `json:"version"`
	Revision *string `json:"revision"`
	Modified bool    `json:"modified"`
	Go       string  `json:"go"`
	OS       string  `json:"os"`
	Arch     string  `json:"arch"`
}

// VersionReport writes a version; for people, as one line.
func VersionReport(w io.Writer, format Format, v Version) error {
	revision := v.Revision
	if v.Modified {
		revision += " (modified)"
	}
	switch format {
	case TableFormat:
		_, err := fmt.Fprintf(w, "memopt %s%s %s %s/%s\n", v.Version, spaced(revision), v.Go, v.OS, v.Arch)
		return err
	case JSONFormat:
		j := versionJSON{Schema: VersionSchema, Version: v.Version, Modified: v.Modified, Go: v.Go, OS: v.OS,
			Arch: v.Arch}
		if v.Revision != "" {
			j.Revision = &v.Revision
		}
		return WriteJSON(w, j)
	}
	t := Table{Header: []string{"item", "value"}, Fit: []Fit{Wrap, Wrap}}
	t.Add("version", v.Version)
	t.Add("revision", revision)
	t.Add("go", v.Go)
	t.Add("os", v.OS)
	t.Add("arch", v.Arch)
	return t.WriteAs(w, format)
}

// spaced puts a blank before a text that is not empty.
func spaced(text string) string {
	if text == "" {
		return ""
	}
	return " " + text
}
