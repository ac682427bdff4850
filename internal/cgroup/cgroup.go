// Package cgroup finds the control groups that a process is in, and the files with their limits:
// those of version 1, where each controller has a hierarchy of its own, and of version 2
// (cgroups(7); Linux's Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst).
package cgroup

import (
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// Group is a control group.
type Group struct {
	files   fs.FS
	dir     string
	Version int // 1 or 2
}

// Find returns the groups that bound this process by a controller, such as "memory" or "cpu", of
// both versions, each hierarchy from the process's own group to the root. files is the root of the
// file system.
func Find(files fs.FS, controller string) []Group {
	v1, v2 := own(files, controller)
	var list []Group
	for line := range strings.Lines(read(files, "proc/self/mountinfo")) {
		m, ok := parseMount(line)
		switch {
		case !ok:
		case m.kind == "cgroup2" && v2 != "":
			list = append(list, upwards(files, m, v2, 2)...)
		case m.kind == "cgroup" && v1 != "" && hasWord(m.options, controller):
			list = append(list, upwards(files, m, v1, 1)...)
		}
	}
	return list
}

// Read returns a file of the group, "" where it cannot be read.
func (g *Group) Read(name string) string { return read(g.files, path.Join(g.dir, name)) }

// Path returns the path of a file of the group, as users know it.
func (g *Group) Path(name string) string { return "/" + path.Join(g.dir, name) }

func read(files fs.FS, name string) string {
	data, err := fs.ReadFile(files, name)
	if err != nil {
		return ""
	}
	return string(data)
}

// own reads the groups of the process: in version 1's hierarchy with the controller, and in version
// 2's, "" if it is in no group there.
func own(files fs.FS, controller string) (v1, v2 string) {
	for line := range strings.Lines(read(files, "proc/self/cgroup")) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		switch {
		case len(parts) != 3:
		case parts[0] == "0" && parts[1] == "":
			v2 = parts[2]
		case hasWord(parts[1], controller):
			v1 = parts[2]
		}
	}
	return v1, v2
}

func hasWord(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}

// mount is a mounted hierarchy of groups.
type mount struct{ root, point, kind, options string }

// parseMount reads a line of /proc/self/mountinfo (proc_pid_mountinfo(5)): the fourth field is the
// part of the file system that is mounted, the fifth where; behind a lone "-" come the type, the
// source and the file system's options.
func parseMount(line string) (m mount, ok bool) {
	before, after, ok := strings.Cut(strings.TrimSpace(line), " - ")
	head, tail := strings.Fields(before), strings.Fields(after)
	if !ok || len(head) < 5 || len(tail) < 3 {
		return m, false
	}
	return mount{unescape(head[3]), unescape(head[4]), tail[0], tail[2]}, true
}

// unescape undoes the escapes of mountinfo, such as \040 for a space.
func unescape(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+3 < len(text) {
			if n, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// upwards lists a group of a mounted hierarchy and those that it is in. A group outside of the
// mount, as a container sees those of its host, is taken to be the mount's root.
func upwards(files fs.FS, m mount, own string, version int) []Group {
	rest := "/"
	if m.root == "/" {
		rest = own
	} else if below, ok := strings.CutPrefix(own, m.root); ok && (below == "" || below[0] == '/') {
		rest = below
	}
	if strings.HasPrefix(rest, "/..") {
		rest = "/"
	}
	var list []Group
	for rest = path.Clean("/" + rest); ; rest = path.Dir(rest) {
		list = append(list, Group{files, strings.TrimPrefix(path.Join(m.point, rest), "/"), version})
		if rest == "/" {
			return list
		}
	}
}
