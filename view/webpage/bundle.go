package webpage

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"io"
	"path"
	"regexp"
	"strings"
)

// assets are the parts of every page. scripts/vendor-uplot renews the chart library.
//
//go:embed assets/page.html assets/style.css assets/js/*.js assets/uplot
var assets embed.FS

func asset(name string) string {
	text, err := assets.ReadFile(path.Join("assets", name))
	if err != nil {
		panic("webpage: " + err.Error())
	}
	return string(text)
}

// assemble writes a page around its data.
func assemble(w io.Writer, data []byte) error {
	packed, err := pack(data)
	if err != nil {
		return err
	}
	plot := "/*!\n" + asset("uplot/LICENSE") + "*/\n" + asset("uplot/uPlot.iife.min.js")
	plotStyle, style, script := asset("uplot/uPlot.min.css"), asset("style.css"), bundle()
	_, err = strings.NewReplacer("{{.Policy}}", policy([]string{plot, script}, []string{plotStyle, style}),
		"{{.PlotStyle}}", plotStyle, "{{.Style}}", style, "{{.Data}}", packed, "{{.Plot}}", plot,
		"{{.Script}}", script).WriteString(w, asset("page.html"))
	return err
}

// pack is data as the page has them.
func pack(data []byte) (string, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed+5)
	if err != nil {
		return "", err
	}
	if _, err := z.Write(data); err != nil {
		return "", err
	}
	if err := z.Close(); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(b.Bytes()), nil
}

// policy allows scripts and styles by their hashes alone, and no request to anywhere.
func policy(scripts, styles []string) string {
	hashes := func(texts []string) string {
		var out []string
		for _, t := range texts {
			sum := sha256.Sum256([]byte(t))
			out = append(out, "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
		}
		return strings.Join(out, " ")
	}
	return fmt.Sprintf("default-src 'none'; script-src %s; style-src %s; base-uri 'none'; form-action 'none'",
		hashes(scripts), hashes(styles))
}

// mainScript begins the page.
const mainScript = "main"

// Scripts are modules that import each other by lines of this form, so that editors and linters know
// them, and export the declarations at the beginning of a line.
var (
	importLine = regexp.MustCompile(`(?m)^import (\{[^}]*\}) from "\./(\w+)\.js";\n`)
	exportWord = regexp.MustCompile(`(?m)^export ((?:async )?(?:function|class|const) (\w+))`)
)

// bundle joins the scripts: each becomes a function that is called once and returns its exports,
// behind those that it imports. Browsers do not load modules from file://.
func bundle() string {
	var out strings.Builder
	done := map[string]bool{}
	var add func(name string)
	add = func(name string) {
		if done[name] {
			return
		}
		done[name] = true
		text := asset("js/" + name + ".js")
		for _, m := range importLine.FindAllStringSubmatch(text, -1) {
			add(m[2])
		}
		var exports []string
		for _, m := range exportWord.FindAllStringSubmatch(text, -1) {
			exports = append(exports, m[2])
		}
		text = importLine.ReplaceAllString(text, "const $1 = of_$2;\n")
		text = exportWord.ReplaceAllString(text, "$1")
		fmt.Fprintf(&out, "const of_%s = (() => {\n%sreturn { %s };\n})();\n", name, text, strings.Join(exports, ", "))
	}
	add(mainScript)
	return out.String()
}
