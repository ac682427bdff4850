package graph

import (
	"memopt/symbolic"
)

// typ prints a type.
func (p *printer) typ(t *Type) {
	switch t.Form {
	case FormTensor:
		p.dtype(t.DType)
		p.shape(t.Shape)
	case FormSparse:
		p.str(wordSparse + "(")
		p.dtype(t.DType)
		p.shape(t.Shape)
		p.str(")")
	case FormSequence:
		p.str(wordSequence + "(")
		p.elem(t.Elem)
		p.str(")")
	case FormOptional:
		p.str(wordOptional + "(")
		p.elem(t.Elem)
		p.str(")")
	case FormMap:
		p.str(wordMap + "(")
		p.dtype(t.DType)
		if t.Elem != nil {
			p.str(", ")
			p.typ(t.Elem)
		}
		p.str(")")
	case FormOpaque:
		p.str(wordOpaque + "(")
		if t.Name != "" {
			p.name(t.Name)
		}
		p.str(")")
	default:
		p.str("?")
	}
}

func (p *printer) elem(t *Type) {
	if t != nil {
		p.typ(t)
	}
}

func (p *printer) dtype(d DType) { p.str(d.String()) }

// shape prints an empty text for a scalar, [] for an unknown rank.
func (p *printer) shape(s Shape) {
	if !s.Ranked {
		p.str("[]")
		return
	}
	if len(s.Dims) > 0 {
		p.row("[", len(s.Dims), "]", func(i int) { p.dim(s.Dims[i]) })
	}
}

func (p *printer) dim(d symbolic.Expr) {
	if c, ok := d.Const(); ok && c >= 0 {
		p.int(c)
		return
	}
	if !d.IsKnown() {
		p.str("?")
		return
	}
	text := d.String()
	if isIdentifier(text) {
		p.name(text)
		return
	}
	if syms := d.Symbols(); len(syms) == 1 && d.Equal(symbolic.Sym(syms[0])) {
		p.quote(syms[0])
		return
	}
	p.str("(")
	p.str(text)
	p.str(")")
}

// typeText returns a type as Format prints it.
func typeText(t Type) string {
	p := newPrinter(FormatOptions{})
	p.typ(&t)
	return string(p.buf)
}
