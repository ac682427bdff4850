package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"memopt/configs"
	"memopt/executor/ort"
)

// variablePrefix begins the names of memopt's own environment variables.
const variablePrefix = "MEMOPT_"

// testPrefix begins the names of variables that only tests read.
const testPrefix = "MEMOPT_TEST_"

// variable is an environment variable that is read besides those named after flags.
type variable struct{ name, meaning string }

// variables lists them. A test looks for others in the code.
var variables = []variable{
	{"MEMOPT_OPENBLAS", "path of OpenBLAS, for the CPU; off: none"},
	{"MEMOPT_DNNL", "path of oneDNN 2.6, for the CPU; off: none"},
	{ort.LibraryVariable, "path of ONNX Runtime's library, for -e ort"},
	{"MEMOPT_LIBCUDA", "path of NVIDIA's driver library, for -e cuda"},
	{"MEMOPT_CUBLAS", "path of libcublas; off: own kernels"},
	{"MEMOPT_CUDNN", "path of libcudnn; off: own kernels"},
	{"MEMOPT_NVML", "path of libnvidia-ml"},
	{configs.LevelVariable, "default of --level"},
	{configs.ConfigVariable, "default of --config: a file, or its entries"},
	{"NO_COLOR", "set to anything: do not color messages"},
}

// quietVariables have memopt's prefix and are not for its users: the programs and tests that build
// kernels and the Python package read some, which may run in the same shell, and memopt tells its second
// process by others.
var quietVariables = []string{"MEMOPT_CLANG", "MEMOPT_CXX", "MEMOPT_PTXAS", ortChildMark, ort.FolderVariable,
	"MEMOPT_BINARY", "MEMOPT_TESTS"}

// flagVariable returns the name of the variable that stands for a flag.
func flagVariable(flag string) string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// hasVariable reports whether a flag can be set by a variable: flags that only print a text cannot.
func hasVariable(f *pflag.Flag) bool { return f.Name != "help" && f.Name != "version" }

// knownVariables lists all variables with memopt's prefix that some verb reads.
func knownVariables(root *cobra.Command) []string {
	names := slices.Clone(quietVariables)
	for _, v := range variables {
		names = append(names, v.name)
	}
	add := func(f *pflag.Flag) {
		if hasVariable(f) {
			for _, name := range spellings(f) {
				names = append(names, flagVariable(name))
			}
		}
	}
	root.PersistentFlags().VisitAll(add)
	for _, cmd := range root.Commands() {
		cmd.Flags().VisitAll(add)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// warnVariables warns about unknown variables with memopt's prefix, which are most likely misspelt.
func (a *app) warnVariables(root *cobra.Command) {
	known := knownVariables(root)
	bare := make([]string, len(known)) // the common prefix must not make names similar
	for i, name := range known {
		bare[i] = strings.TrimPrefix(name, variablePrefix)
	}
	for _, name := range a.environ.names() {
		rest, ours := strings.CutPrefix(name, variablePrefix)
		if _, found := slices.BinarySearch(known, name); !ours || found || a.environ[name] == "" ||
			strings.HasPrefix(name, testPrefix) {
			continue
		}
		near := ""
		if n := nearest(rest, bare); n != "" {
			near = fmt.Sprintf(" (did you mean %s%s?)", variablePrefix, n)
		}
		a.warn("memopt does not know the variable %s%s; list the known ones with memopt help "+
			"environment", name, near)
	}
}

// environment is the variables of the process, by name.
type environment map[string]string

// newEnvironment reads the form of os.Environ.
func newEnvironment(list []string) environment {
	e := environment{}
	for _, entry := range list {
		if name, text, ok := strings.Cut(entry, "="); ok {
			e[name] = text
		}
	}
	return e
}

// list returns the form of os.Environ, sorted by name.
func (e environment) list() []string {
	var list []string
	for _, name := range e.names() {
		list = append(list, name+"="+e[name])
	}
	return list
}

// names lists the variables, sorted.
func (e environment) names() []string {
	names := make([]string, 0, len(e))
	for name := range e {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (a *app) environmentTopic() *cobra.Command {
	var b strings.Builder
	b.WriteString(`Environment variables of memopt:

Every flag can be set by a variable of its name, such as MEMOPT_THREADS=2 for
--threads 2, in all verbs that have the flag; an empty variable is ignored. A
flag on the command line takes precedence over its variable, and that over
ORTModule's.

`)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, v := range variables {
		fmt.Fprintf(w, "  %s\t%s\n", v.name, v.meaning)
	}
	w.Flush()
	return &cobra.Command{
		Use: "environment", Short: "Environment variables that memopt reads",
		Long: strings.TrimSuffix(b.String(), "\n"),
	}
}

// takeVariables sets the flags of a verb that are not given to the values of their variables.
func (a *app) takeVariables(cmd *cobra.Command) error {
	var err error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed || err != nil || !hasVariable(f) {
			return
		}
		for _, spelling := range spellings(f) {
			name := flagVariable(spelling)
			if text, _ := a.env(name); text != "" {
				if e := cmd.Flags().Set(f.Name, text); e != nil {
					err = usage("%s: %v", name, e)
				}
				return
			}
		}
	})
	return err
}
