package cli

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

// VariablePrefix begins the names of memopt's own environment variables.
const VariablePrefix = "MEMOPT_"

// TestPrefix begins the names of variables that only tests read.
const TestPrefix = "MEMOPT_TEST_"

// variable is an environment variable that is read besides those named after flags.
type variable struct{ Name, meaning string }

// Variables lists them. A test looks for others in the code.
var Variables = []variable{
	{"MEMOPT_OPENBLAS", "path of OpenBLAS, for the CPU; off: do without"},
	{"MEMOPT_DNNL", "path of oneDNN 2.6, for the CPU; off: do without"},
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
	"MEMOPT_BINARY", "MEMOPT_TESTS", parentVariable}

// FlagVariable returns the name of the variable that stands for a flag.
func FlagVariable(flag string) string {
	return VariablePrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// HasVariable reports whether a flag can be set by a variable: flags that only print a text cannot.
func HasVariable(f *pflag.Flag) bool { return f.Name != "help" && f.Name != "version" }

// KnownVariables lists all variables with memopt's prefix that some verb reads.
func KnownVariables(root *cobra.Command) []string {
	names := slices.Clone(quietVariables)
	for _, v := range Variables {
		names = append(names, v.Name)
	}
	add := func(f *pflag.Flag) {
		if HasVariable(f) {
			for _, name := range spellings(f) {
				names = append(names, FlagVariable(name))
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

// WarnVariables warns about unknown variables with memopt's prefix, which are most likely misspelt.
func (a *App) WarnVariables(root *cobra.Command) {
	known := KnownVariables(root)
	bare := make([]string, len(known)) // the common prefix must not make names similar
	for i, name := range known {
		bare[i] = strings.TrimPrefix(name, VariablePrefix)
	}
	for _, name := range a.Environ.Names() {
		rest, ours := strings.CutPrefix(name, VariablePrefix)
		if _, found := slices.BinarySearch(known, name); !ours || found || a.Environ[name] == "" ||
			strings.HasPrefix(name, TestPrefix) {
			continue
		}
		near := ""
		if n := nearest(rest, bare); n != "" {
			near = fmt.Sprintf(" (did you mean %s%s?)", VariablePrefix, n)
		}
		a.Warn("memopt does not know the variable %s%s; list the known ones with memopt help "+
			"environment", name, near)
	}
}

// Environment is the variables of the process, by name.
type Environment map[string]string

// NewEnvironment reads the form of os.Environ.
func NewEnvironment(list []string) Environment {
	e := Environment{}
	for _, entry := range list {
		if name, text, ok := strings.Cut(entry, "="); ok {
			e[name] = text
		}
	}
	return e
}

// List returns the form of os.Environ, sorted by name.
func (e Environment) List() []string {
	var list []string
	for _, name := range e.Names() {
		list = append(list, name+"="+e[name])
	}
	return list
}

// Names lists the variables, sorted.
func (e Environment) Names() []string {
	names := make([]string, 0, len(e))
	for name := range e {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (a *App) EnvironmentTopic() *cobra.Command {
	var b strings.Builder
	b.WriteString(`Environment variables of memopt:

Every flag can be set by a variable of its name, such as MEMOPT_THREADS=2 for
--threads 2, in all verbs that have the flag; an empty variable is ignored. A
flag on the command line takes precedence over its variable, and that over
ORTModule's.

`)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, v := range Variables {
		fmt.Fprintf(w, "  %s\t%s\n", v.Name, v.meaning)
	}
	w.Flush()
	return &cobra.Command{
		Use: "environment", Short: "Environment variables that memopt reads",
		Long: strings.TrimSuffix(b.String(), "\n"),
	}
}

// TakeVariables sets the flags of a verb that are not given to the values of their variables.
func (a *App) TakeVariables(cmd *cobra.Command) error {
	var err error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed || err != nil || !HasVariable(f) {
			return
		}
		for _, spelling := range spellings(f) {
			name := FlagVariable(spelling)
			if text, _ := a.Env(name); text != "" {
				if e := cmd.Flags().Set(f.Name, text); e != nil {
					err = Usage("%s: %v", name, e)
				}
				return
			}
		}
	})
	return err
}
