package ort

import (
	"strconv"
	"strings"
)

// apiVersion is the version of the C API that memopt requests: the first that counts an allocator's
// bytes in use. Release 1.N offers the versions up to N.
const (
	apiVersion    = 23
	oldestRelease = "1.23"
)

// newEnough reports whether a release such as "1.30.0" offers the API that is needed.
func newEnough(release string) bool {
	parts := strings.SplitN(release, ".", 3)
	if len(parts) < 2 {
		return false
	}
	major, err := strconv.Atoi(parts[0])
	if err != nil {
		return false
	}
	minor, err := strconv.Atoi(parts[1])
	return err == nil && (major > 1 || major == 1 && minor >= apiVersion)
}
