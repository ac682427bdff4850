package pytorch

import (
	"fmt"
	"io"
	"strings"

	"memopt/view/report"
)

// Lines prints the Python that puts the modules of the plan under checkpoints, for a script that has its
// model in the variable model.
func (p *Plan) Lines(w io.Writer) error {
	var b strings.Builder
	x := p.Chosen
	fmt.Fprintf(&b, "# %s: peak in PyTorch %s instead of %s, %s of a step more.\n", report.Plain(p.Source.Path),
		report.Bytes(x.Usage.Peak), report.Bytes(p.Baseline.Usage.Peak), report.Percent(p.Overhead(x)))
	if len(x.Calls) == 0 {
		b.WriteString("# No module needs a checkpoint: leave the model as it is.\n")
		_, err := io.WriteString(w, b.String())
		return err
	}
	b.WriteString("import functools\nfrom torch.utils.checkpoint import checkpoint\n\nfor name in (\n")
	for _, name := range p.Names(x) {
		fmt.Fprintf(&b, "    %s,\n", PythonString(name))
	}
	fmt.Fprintf(&b, `):
    module = model.get_submodule(name)
    module.forward = functools.partial(
        checkpoint, module.forward, use_reentrant=False, preserve_rng_state=%s
    )
`, PythonBool(p.Random(x)))
	if p.statistics() {
		b.WriteString("# Running statistics of BatchNorm move twice in a module that runs again;\n" +
			"# memopt.torch.apply keeps them, these lines do not. Gradients are the same.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// statistics reports whether a module of the plan has running statistics.
func (p *Plan) statistics() bool {
	for i := range p.Program.Steps[:p.Program.Backward] {
		s := &p.Program.Steps[i]
		if !s.Moves {
			continue
		}
		for _, c := range p.Chosen.Calls {
			if p.Tree.Within(s.Call, c) {
				return true
			}
		}
	}
	return false
}

// PythonString is a literal of a name in Python.
func PythonString(s string) string {
	return fmt.Sprintf("%q", report.Plain(s))
}

// PythonBool is a literal of Python.
func PythonBool(b bool) string {
	if b {
		return "True"
	}
	return "False"
}
