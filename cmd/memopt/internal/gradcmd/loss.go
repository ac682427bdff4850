package gradcmd

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"memopt/autograd"
	"memopt/cmd/memopt/internal/cli"
)

// lossForms says how a loss is written that the model does not have.
const lossForms = "cross-entropy:LOGITS:LABELS, mse:OUTPUT:TARGETS or bce:LOGITS:TARGETS, and behind it any of " +
	":shift, :ignore=LABEL, :reduction=sum, :axis=N, :weight=W"

// parseLoss reads NAME, NAME=WEIGHT or NAME=seed of a value of the graph, or a loss that is to be added:
// KIND:SCORES:LABELS with options. Names may have colons; the last one that no option follows parts
// scores from labels.
func parseLoss(text string) (autograd.Loss, error) {
	kind, rest, found := strings.Cut(text, ":")
	kinds := []autograd.HeadKind{autograd.CrossEntropy, autograd.MSE, autograd.BCE}
	if found && slices.Contains(kinds, autograd.HeadKind(kind)) {
		return parseHead(text, autograd.HeadKind(kind), rest)
	}
	if near := nearKind(kind); found && near != "" {
		return autograd.Loss{}, cli.Usage("--loss %q: there is no loss %q; did you mean %s? Wanted %s", text, kind,
			near,
			lossForms)
	}
	at := strings.LastIndexByte(text, '=')
	if at <= 0 {
		return autograd.Loss{Name: text}, nil
	}
	value := text[at+1:]
	if value == "seed" {
		return autograd.Loss{Name: text[:at], Seed: true}, nil
	}
	w, err := parseWeight(value)
	if err != nil {
		return autograd.Loss{},
			cli.Usage("--loss %q: wanted NAME, NAME=WEIGHT with a finite weight, NAME=seed, or a loss "+
				"that is added: %s", text, lossForms)
	}
	return autograd.Loss{Name: text[:at], Weight: w}, nil
}

// nearKind is the kind of loss that a word is another spelling of, such as cross_entropy or MSELoss; "":
// none.
func nearKind(word string) autograd.HeadKind {
	letters := strings.Map(func(r rune) rune {
		if r < 'a' || r > 'z' {
			return -1
		}
		return r
	}, strings.ToLower(word))
	for _, prefix := range []struct {
		text string
		kind autograd.HeadKind
	}{{"crossentropy", autograd.CrossEntropy}, {"mse", autograd.MSE}, {"bce", autograd.BCE},
		{"binarycrossentropy", autograd.BCE}} {
		if strings.HasPrefix(letters, prefix.text) {
			return prefix.kind
		}
	}
	return ""
}

// parseWeight reads the weight of a loss.
func parseWeight(text string) (float64, error) {
	w, err := strconv.ParseFloat(text, 64)
	if err == nil && (math.IsNaN(w) || math.IsInf(w, 0)) {
		err = strconv.ErrRange
	}
	return w, err
}

// parseHead reads SCORES:LABELS and options from the last one on.
func parseHead(text string, kind autograd.HeadKind, rest string) (autograd.Loss, error) {
	l := autograd.Loss{Head: &autograd.Head{Kind: kind}}
	for {
		at := strings.LastIndexByte(rest, ':')
		if at < 0 {
			return l, cli.Usage("--loss %q: names one value, wanted two: %s", text, lossForms)
		}
		option, err := headOption(&l, rest[at+1:])
		if err != nil {
			return l, cli.Usage("--loss %q: %q: wanted %s", text, rest[at+1:], lossForms)
		}
		if !option {
			l.Head.Scores, l.Head.Labels = rest[:at], rest[at+1:]
			break
		}
		rest = rest[:at]
	}
	if l.Head.Scores == "" || l.Head.Labels == "" {
		return l, cli.Usage("--loss %q: a name is empty; wanted %s", text, lossForms)
	}
	return l, nil
}

// headOption reads an option of an added loss; false means that the text is a name.
func headOption(l *autograd.Loss, text string) (bool, error) {
	name, value, assigns := strings.Cut(text, "=")
	var err error
	switch h := l.Head; {
	case text == "shift":
		h.Shift = true
	case !assigns:
		return false, nil
	case name == "ignore":
		var x float64
		x, err = strconv.ParseFloat(value, 64)
		h.Ignore = &x
	case name == "reduction":
		if h.Sum = value == "sum"; !h.Sum && value != "mean" {
			err = strconv.ErrSyntax
		}
	case name == "axis":
		var n int
		n, err = strconv.Atoi(value)
		h.Axis = &n
	case name == "weight":
		l.Weight, err = parseWeight(value)
	default:
		err = strconv.ErrSyntax
	}
	return true, err
}
