package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"memopt/cmd/memopt/internal/cli"
)

func manCommand(a *cli.App) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "man [VERB] [-o DIR]",
		Short: "Print a man page, or write all of them",
		Long: `man prints the man page of a verb, or of memopt itself, as man(1) reads it, or
writes the pages of all verbs and topics into a folder: verbs belong to section
1, topics such as exit-codes to section 7. The same build always writes the
same bytes.`,
		Example: `  memopt man plan | man -l -
        read the page of plan
  memopt man -o ~/.local/share/man
        install all pages, below man1 and man7`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out != "" {
				if len(args) > 0 {
					return cli.Usage("man: %q and -o %s cannot be combined: -o writes all pages", args[0], out)
				}
				return writePages(a, cmd.Root(), out)
			}
			page := cmd.Root()
			if len(args) > 0 {
				if page = cli.Subcommand(page, args[0]); page == nil {
					return noCommand(cmd.Root(), args)
				}
			}
			_, err := fmt.Fprint(a.Out, manPage(page))
			return err
		},
	}
	cmd.ValidArgsFunction = completeVerbs
	cmd.Flags().StringVarP(&out, "out", "o", "", "folder to write all pages to, below man1 and man7")
	return cmd
}

// documented lists the commands that have a page: those that users see, below others too.
func documented(cmd *cobra.Command) []*cobra.Command {
	list := []*cobra.Command{cmd}
	for _, c := range cmd.Commands() {
		if !c.Hidden && c.Name() != "help" && cmd.Name() != "completion" {
			list = append(list, documented(c)...)
		}
	}
	return list
}

// writePages writes all pages.
func writePages(a *cli.App, root *cobra.Command, dir string) error {
	for _, cmd := range documented(root) {
		section := filepath.Join(dir, "man"+manSection(cmd))
		if err := os.MkdirAll(section, 0o755); err != nil {
			return cli.Usage("--out: %w", err)
		}
		path := filepath.Join(section, manName(cmd)+"."+manSection(cmd))
		if err := a.WriteArtefact("--out", path, []byte(manPage(cmd))); err != nil {
			return err
		}
	}
	return nil
}

// manSection is 1 for commands and 7 for topics.
func manSection(cmd *cobra.Command) string {
	if cmd.Runnable() {
		return "1"
	}
	return "7"
}

// manName is the name of a command's page: memopt-plan.
func manName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manPage returns a page in man's macros (man(7)).
func manPage(cmd *cobra.Command) string {
	p := &page{}
	p.line(".TH %s %s \"\" %s memopt", roffArgument(strings.ToUpper(manName(cmd))), roffArgument(manSection(cmd)),
		roffArgument("memopt "+cli.ThisBuild().Version))
	p.line(".SH NAME")
	p.line(`%s \- %s`, roff(manName(cmd)), roff(cmd.Short))
	if cmd.Runnable() {
		p.line(".SH SYNOPSIS")
		p.line(".nf\n%s\n.fi", roff(cmd.UseLine()))
	}
	if text := cmd.Long; text != "" {
		p.line(".SH DESCRIPTION")
		p.text(text)
	}
	cmd.InitDefaultHelpFlag()
	p.flags("OPTIONS", cmd.NonInheritedFlags())
	p.flags("OPTIONS OF EVERY VERB", cmd.InheritedFlags())
	p.verbs(cmd)
	if cmd.Example != "" {
		p.line(".SH EXAMPLES")
		p.line(".nf\n%s\n.fi", roff(cmd.Example))
	}
	p.seeAlso(cmd)
	return p.String()
}

// page is a page that is being written.
type page struct{ strings.Builder }

// line adds a line, or several.
func (p *page) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// text adds paragraphs, which blank lines separate; those with an indented line keep their lines.
func (p *page) text(text string) {
	for i, paragraph := range strings.Split(strings.TrimRight(text, "\n"), "\n\n") {
		if i > 0 {
			p.line(".PP")
		}
		if strings.HasPrefix(paragraph, " ") || strings.Contains(paragraph, "\n ") {
			p.line(".nf\n%s\n.fi", roff(strings.Trim(paragraph, "\n")))
		} else {
			p.line("%s", roff(strings.Trim(paragraph, "\n")))
		}
	}
}

// flags adds a section of flags.
func (p *page) flags(title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	p.line(".SH %s", title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		name := `\fB` + roff("--"+f.Name) + `\fR`
		if f.Shorthand != "" {
			name = `\fB` + roff("-"+f.Shorthand) + `\fR, ` + name
		}
		kind, usage := pflag.UnquoteUsage(f)
		if kind != "" {
			name += ` \fI` + roff(kind) + `\fR`
		}
		p.line(".TP\n%s\n%s", name, roff(usage+defaultText(f)))
	})
}

// defaultText is the default of a flag, or "".
func defaultText(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "0", "false", "[]":
		return ""
	}
	return " (default " + f.DefValue + ")"
}

// verbs adds a list of a command's subcommands, in the order of help.
func (p *page) verbs(cmd *cobra.Command) {
	if !cmd.HasAvailableSubCommands() {
		return
	}
	p.line(".SH COMMANDS")
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && c.Name() != "help" {
			p.line(".TP\n\\fB%s\\fR\n%s", roff(c.CommandPath()), roff(c.Short))
		}
	}
}

// seeAlso adds the pages to go on with.
func (p *page) seeAlso(cmd *cobra.Command) {
	var list []string
	add := func(c *cobra.Command) {
		if c != nil && c != cmd {
			list = append(list, fmt.Sprintf(`\fB%s\fR(%s)`, roff(manName(c)), manSection(c)))
		}
	}
	root := cmd.Root()
	add(root)
	add(cli.Subcommand(root, "environment"))
	add(cli.Subcommand(root, "exit-codes"))
	p.line(".SH SEE ALSO\n%s", strings.Join(list, ",\n"))
}

// escapes are those of roff: hyphens that are typed are minus signs; backslashes, and marks that roff would make
// accents, stay themselves.
var escapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`)

// roff returns text as roff prints it, without a line that roff takes for a request.
func roff(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if line = ascii(escapes.Replace(line)); strings.HasPrefix(line, ".") {
			line = `\&` + line
		}
		lines[i] = line
	}
	return strings.Join(lines, "\n")
}

// ascii writes other characters by their numbers.
func ascii(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r < utf8.RuneSelf {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\[u%04X]`, r)
		}
	}
	return b.String()
}

// roffArgument is an argument of a macro.
func roffArgument(text string) string { return `"` + strings.ReplaceAll(roff(text), `"`, `\(dq`) + `"` }
